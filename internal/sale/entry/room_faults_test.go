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

// A server that starts after an outage reads the log in several steps, and extends the passes that the others held.
func TestLateServerAgreesOnOutage(t *testing.T) {
	r := newTestRoom(t, 20)
	order := LobbyOrder(r.room.Seed, 20)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	admitted := func(position, expires int) domain.RoomEvent {
		return domain.RoomEvent{
			VoucherID: 1, Kind: domain.RoomAdmitted, At: at(1), ExpiresAt: at(expires), Numbers: order[position : position+1],
		}
	}
	outage := domain.RoomEvent{VoucherID: 1, Kind: domain.RoomResumed, Since: at(28), At: at(60)}

	late := &testRoom{line: newLine(), t: t, sale: r.sale, now: at(64), room: r.room}
	late.room.Heartbeat = at(64)
	late.read(admitted(0, 33), admitted(1, 34))
	late.read(outage)
	late.read()
	require.True(t, late.ask(order[0]).over, "it expired before the outage was known")
	require.Equal(t, at(66), late.ask(order[1]).expires)
	late.now = at(66)
	late.read()
	require.True(t, late.ask(order[1]).over, "without a further heartbeat")
	require.Zero(t, late.outstanding())
}
