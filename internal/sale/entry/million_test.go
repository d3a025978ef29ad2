//go:build !race

package entry_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/sale/entry"
	"seckill/test/env"
)

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A million waiting buyers cost one write at the start and no call to the database or to Redis per poll, and they are
// admitted in the order of the lobby. The test logs their memory.
func TestMillionWaiting(t *testing.T) {
	env.FullNoRace(t, "a million buyers")
	const waiting, rate, seconds = 1_000_000, 10_000, 3
	simulate(t, func() *world { return newWorld(waiting, 1) }, func(t *testing.T, w *world, server *entry.Service) {
		w.vouchers[1].Sale.Entry.Rate = rate
		ask(t, server, 1, 0) // reads the room
		time.Sleep(45 * time.Second)
		before, calls := heap(), w.count("")
		for n := range uint32(waiting) {
			if a := ask(t, server, 1, n); a.State != entry.Lobby || a.Poll < 15*time.Second {
				require.Fail(t, "not in the lobby", "%d: %+v", n, a)
			}
		}
		require.Equal(t, calls, w.count(""), "a poll calls neither the database nor Redis")
		time.Sleep(16*time.Second + 100*time.Millisecond)
		require.Equal(t, 1, w.count("StartRoom"))
		require.Zero(t, w.count("JoinRoom"))
		t.Logf("%.1f bytes per waiting buyer", float64(heap()-before)/waiting)

		time.Sleep(seconds * time.Second)
		order, admitted := entry.LobbyOrder(w.rooms[1].Seed, waiting), w.admitted(1)
		require.InDelta(t, rate*(seconds+1), len(admitted), rate)
		require.Equal(t, order[:len(admitted)], admitted)
		calls = w.count("")
		for position := len(admitted) - 100; position < len(admitted)+100; position++ {
			a := ask(t, server, 1, order[position])
			require.Equal(t, position < len(admitted), a.State == entry.Admitted)
			require.Equal(t, max(position-len(admitted), 0), a.Ahead)
		}
		require.Equal(t, calls, w.count(""))
		require.Equal(t, 1, w.count("StartRoom"))
	})
}
