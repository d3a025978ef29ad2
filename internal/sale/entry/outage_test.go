package entry_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/entry"
)

// An outage while a buyer is admitted costs no turn, whatever fails: the pass is valid again afterwards for the time that was
// left, and nobody else gets its unit meanwhile. Who does not buy then loses the turn, as without an outage.
// Source: cloudflare/cloudflare-docs#16645, intechnicauk.wordpress.com/tag/ticketing.
func TestOutageKeepsTurns(t *testing.T) {
	const buyers, units = 20, 5
	const ttl = 30 * time.Second
	database := func(w *world, down bool) { w.down = down }
	mute := func(servers int) func(*world, bool) {
		return func(w *world, out bool) {
			w.mute = 0
			if out {
				w.mute = servers
			}
		}
	}
	withdrawn := func(w *world, off bool) {
		w.vouchers[1].Status = domain.VoucherOn
		if off {
			w.vouchers[1].Status = domain.VoucherOff
		}
	}

	for name, outage := range map[string]struct {
		lasts   time.Duration
		set     func(w *world, on bool)
		restart bool // no server runs meanwhile
		expire  bool // the passes go on
	}{
		"the database, longer than the passes":  {lasts: 45 * time.Second, set: database},
		"the database, shorter than the passes": {lasts: 15 * time.Second, set: database},
		"the database, for long":                {lasts: 10 * time.Minute, set: database},
		"Redis or the lock nodes":               {lasts: 45 * time.Second, set: mute(2)},
		"of one server":                         {lasts: 45 * time.Second, set: mute(1), expire: true},
		"all servers":                           {lasts: 45 * time.Second, set: func(*world, bool) {}, restart: true},
		"the sale is withdrawn":                 {lasts: 45 * time.Second, set: withdrawn},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(buyers, 1)
				w.vouchers[1].Sale.BeginAt = time.Now()
				w.vouchers[1].Sale.EndAt = time.Now().Add(24 * time.Hour)
				w.vouchers[1].Sale.Entry.PassTTL = ttl
				w.rooms[1].Stock = units
				var servers []*entry.Service
				var stops []func()
				start := func(n int) {
					for range n {
						server, stop := w.serve(t)
						servers = append(servers, server)
						stops = append(stops, stop)
					}
				}
				stop := func() {
					for _, stop := range stops {
						stop()
					}
					servers, stops = nil, nil
				}
				defer func() { stop() }()
				poll := func(s *entry.Service) (expiries []time.Time, lost int) {
					for n := range uint32(buyers) {
						a, err := s.Ask(t.Context(), int64(n), 1, s.Tickets.Issue(int64(n), 1, n))
						if errors.Is(err, domain.ErrPlaceLost) {
							lost++
						}
						if a.Pass != "" {
							expiries = append(expiries, a.ExpiresAt)
						}
					}
					return expiries, lost
				}
				pass := func(d time.Duration) (lost int) {
					for end := time.Now().Add(d); time.Now().Before(end); {
						time.Sleep(time.Second)
						for _, s := range servers {
							_, gone := poll(s)
							lost += gone
						}
					}
					return lost
				}

				start(2)
				require.Zero(t, pass(5*time.Second))
				before, _ := poll(servers[0])
				require.Len(t, before, units)
				left := time.Until(before[0])

				w.change(func() { outage.set(w, true) })
				lost := 0
				if outage.restart {
					stop()
					time.Sleep(outage.lasts)
					start(2)
				} else {
					lost = pass(outage.lasts)
				}
				w.change(func() { outage.set(w, false) })
				if outage.expire {
					require.Positive(t, lost)
					require.Greater(t, len(w.admitted(1)), units)
					return
				}
				require.Zero(t, lost+pass(3*time.Second))
				require.Len(t, w.admitted(1), units, "nobody else is admitted")

				start(1)
				after, _ := poll(servers[0])
				require.Len(t, after, units)
				// The last heartbeat before may be 1.5 s old, and the first one comes up to two ticks of 0.5 s late.
				require.InDelta(t, left-3*time.Second, time.Until(after[0]), float64(2500*time.Millisecond))
				for _, s := range servers {
					same, _ := poll(s)
					require.Equal(t, after, same, "on every server")
				}
				time.Sleep(time.Until(after[0]) + 100*time.Millisecond)
				for _, s := range servers {
					_, lost := poll(s)
					require.Equal(t, units, lost)
				}
			})
		})
	}
}

// A room in which nobody asks for a long time is no outage: the only pass expires in time.
func TestQuietRoomIsNoOutage(t *testing.T) {
	simulate(t, func() *world { return newWorld(2, 1) }, func(t *testing.T, w *world, server *entry.Service) {
		w.vouchers[1].Sale.BeginAt = time.Now()
		w.vouchers[1].Sale.EndAt = time.Now().Add(24 * time.Hour)
		w.vouchers[1].Sale.Entry.PassTTL = time.Hour
		w.rooms[1].Stock = 1
		for range 3 {
			ask(t, server, 1, 0)
			time.Sleep(time.Second)
		}
		require.Equal(t, []uint32{0}, w.admitted(1))

		time.Sleep(time.Hour)
		for range 3 {
			ask(t, server, 1, 1)
			time.Sleep(time.Second)
		}
		require.Equal(t, []uint32{0, 1}, w.admitted(1), "the unit goes to the next")
	})
}
