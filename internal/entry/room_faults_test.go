package entry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// The row of a room and its events are read one after the other, so that the first admissions can arrive before the
// start. They belong to the same buyers afterwards.
func TestAdmissionReadBeforeStart(t *testing.T) {
	r := &testRoom{line: newLine(), t: t, sale: roomSale(), now: start, room: domain.Room{VoucherID: 1, Joined: 20, Stock: 20}}
	order := LobbyOrder([32]byte{7}, 20)
	first := order[:5]
	r.read(domain.RoomEvent{
		VoucherID: 1, Kind: domain.RoomAdmitted, At: start, ExpiresAt: start.Add(time.Minute), Numbers: first,
	})
	r.room.StartedAt, r.room.Size, r.room.Seed = start, 20, [32]byte{7}
	r.read()
	for position, n := range order {
		require.Equal(t, position < len(first), !r.ask(n).expires.IsZero(), "position %d", position)
	}
}

// A server that has not read the start yet does not report which of its buyers are next. The first admission waits for
// it, but not for a server that cannot reach the database or has failed.
func TestFirstAdmissionWaitsForOtherServers(t *testing.T) {
	r := newTestRoom(t, 20)
	late := report{At: start.UnixMilli(), Present: 5}
	require.Empty(t, r.admit(time.Second, late))
	late.Started, late.Next = true, []uint32{20}
	require.Contains(t, r.admit(0, late), LobbyOrder(r.room.Seed, 20)[0])

	r = newTestRoom(t, 20)
	r.now = r.now.Add(reportLife)
	require.NotEmpty(t, r.admit(0, report{At: r.now.UnixMilli()}))
}
