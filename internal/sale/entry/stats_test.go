package entry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

func TestStatsFollowTheRoom(t *testing.T) {
	r := newTestRoom(t, 20)
	reports := func(others ...report) Stats {
		r.keep(append(others, r.report(0, r.now)))
		return r.stats(r.now)
	}
	require.Equal(t, Stats{Waiting: 20, Present: 20}, reports())
	first := r.admit(time.Second)
	require.Equal(t, Stats{Waiting: 10, Present: 10, Admitted: 10, Outstanding: 10}, reports())

	r.room.Bought = map[uint32]int{1: 3}
	r.read()
	other := report{At: r.now.UnixMilli(), Present: 5}
	require.Equal(t, Stats{Waiting: 10, Present: 15, Admitted: 10, Outstanding: 7, Used: 3}, reports(other))
	other.At -= 2 * reportLife.Milliseconds() // that server has stopped
	require.Equal(t, Stats{Waiting: 10, Present: 10, Admitted: 10, Outstanding: 7, Used: 3}, reports(other))

	waits := LobbyOrder(r.room.Seed, 20)[15]
	r.read(domain.RoomEvent{VoucherID: 1, Kind: domain.RoomLeft, Numbers: []uint32{first[5], waits}})
	require.Equal(t, Stats{Waiting: 9, Present: 9, Admitted: 10, Outstanding: 6, Used: 3, Left: 2}, reports(other))

	r.now = r.now.Add(30 * time.Second) // the passes expire, and nobody has asked again
	r.read()
	require.Equal(t, Stats{Waiting: 9, Admitted: 10, Left: 2}, reports(other))
}

func TestStatsOfLobby(t *testing.T) {
	r := &testRoom{line: newLine(), t: t, sale: roomSale(), now: start.Add(-time.Minute), room: domain.Room{VoucherID: 1, Joined: 3}}
	r.read(domain.RoomEvent{VoucherID: 1, Kind: domain.RoomLeft, Numbers: []uint32{1}})
	r.ask(0)
	r.keep([]report{r.report(0, r.now)})
	require.Equal(t, Stats{Lobby: 2, Present: 1, Left: 1}, r.stats(r.now))
}
