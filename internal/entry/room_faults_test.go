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
