package entry_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/sale/entry"
	"seckill/test/env"
)

// world is the database, the other servers and the sales of one server in a test. It counts the calls of the server.
type world struct {
	mu       sync.Mutex
	rooms    map[int64]*domain.Room // with all events
	vouchers map[int64]*domain.Voucher
	places   map[domain.SaleUser]uint32 // of users that joined
	left     []domain.RoomPlace         // in order
	calls    map[string]int
	// exchange replaces Exchange unless it is nil.
	exchange func(ctx context.Context) error
	clock    time.Duration // of the database, ahead of the server
	delay    time.Duration // from a reading of the rooms to its reply
	down     bool          // the database does not answer
	mute     int           // so many servers, the first ones, cannot sell
	servers  int           // that were started
}

// newWorld returns a world with a sale of a million units per voucher, which begins in a minute.
func newWorld(joined uint32, vouchers ...int64) *world {
	w := &world{rooms: map[int64]*domain.Room{}, vouchers: map[int64]*domain.Voucher{}, places: map[domain.SaleUser]uint32{}, calls: map[string]int{}}
	for _, id := range vouchers {
		begin := time.Now().Add(time.Minute)
		w.rooms[id] = &domain.Room{VoucherID: id, Joined: joined, Stock: 1_000_000}
		w.vouchers[id] = &domain.Voucher{ID: id, Status: domain.VoucherOn, Sale: &domain.Sale{
			Stock: 1_000_000, BeginAt: begin, EndAt: begin.Add(time.Hour), LimitPerUser: 1,
			Entry: domain.Entry{Mode: domain.EntryRoom, Rate: 10, PassTTL: time.Minute},
		}}
	}
	return w
}

func (w *world) call(name string) (unlock func()) {
	w.mu.Lock()
	w.calls[name]++
	return w.mu.Unlock
}

// count returns how often a method was called, or all methods for "".
func (w *world) count(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for method, calls := range w.calls {
		if name == "" || method == name {
			n += calls
		}
	}
	return n
}

func (w *world) change(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

func (w *world) Get(_ context.Context, id int64) (*domain.Voucher, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := *w.vouchers[id]
	sale := *v.Sale
	v.Sale = &sale
	return &v, nil
}

func (w *world) JoinRoom(_ context.Context, id int64, requests []domain.PlaceRequest) ([]uint32, error) {
	defer w.call("JoinRoom")()
	if w.down {
		return nil, domain.ErrUnavailable
	}
	numbers := make([]uint32, len(requests))
	for i, r := range requests {
		place := domain.SaleUser{UserID: r.UserID, VoucherID: id}
		number, ok := w.places[place]
		if !ok || int64(number) == r.Lost {
			number = w.rooms[id].Joined
			w.rooms[id].Joined++
			w.places[place] = number
		}
		numbers[i] = number
	}
	return numbers, nil
}

func (w *world) LeaveRoom(_ context.Context, id int64, places []domain.RoomPlace) error {
	defer w.call("LeaveRoom")()
	e := domain.RoomEvent{VoucherID: id, Kind: domain.RoomLeft, At: w.now()}
	for _, p := range places {
		e.Numbers = append(e.Numbers, p.Number)
	}
	w.left = append(w.left, places...)
	w.append(e)
	return nil
}

func (w *world) append(e domain.RoomEvent) {
	r := w.rooms[e.VoucherID]
	e.Seq = uint32(len(r.Events)) + 1
	r.Events = append(r.Events, e)
}

func (w *world) StartRoom(_ context.Context, id int64, seed [32]byte) error {
	defer w.call("StartRoom")()
	if r := w.rooms[id]; r.StartedAt.IsZero() {
		r.StartedAt, r.Seed, r.Size = w.now(), seed, r.Joined
		r.Heartbeat = r.StartedAt
	}
	return nil
}

func (w *world) Heartbeat(_ context.Context, id int64) error {
	defer w.call("Heartbeat")()
	if w.down {
		return domain.ErrUnavailable
	}
	r := w.rooms[id]
	if now := w.now(); now.Sub(r.Heartbeat) > domain.RoomOutage {
		w.append(domain.RoomEvent{VoucherID: id, Kind: domain.RoomResumed, Since: r.Heartbeat, At: now})
	}
	r.Heartbeat = w.now()
	return nil
}

func (w *world) Admit(_ context.Context, e domain.RoomEvent) error {
	defer w.call("Admit")()
	if int(e.Seq) != len(w.rooms[e.VoucherID].Events)+1 {
		return domain.ErrInvalidState
	}
	w.append(e)
	return nil
}

func (w *world) PurgePlaces(context.Context) (int, error) { return 0, nil }

func (w *world) Rooms(ctx context.Context, after map[int64]domain.RoomCursor) (rooms []domain.Room, now time.Time, err error) {
	unlock := w.call("Rooms")
	delay := w.delay
	defer func() { unlock(); time.Sleep(delay) }()
	if ctx.Err() != nil || w.down {
		return nil, now, domain.ErrUnavailable
	}
	for id, cursor := range after {
		r := *w.rooms[id]
		r.Events = slices.Clone(r.Events[cursor.Applied:])
		r.Bought = maps.Clone(r.Bought)
		rooms = append(rooms, r)
	}
	return rooms, w.now(), nil
}

func (w *world) now() time.Time { return time.Now().Add(w.clock) }

func (w *world) Exchange(ctx context.Context, _ int64, report []byte, _ time.Duration) ([][]byte, error) {
	w.call("Exchange")()
	if w.exchange != nil {
		return nil, w.exchange(ctx)
	}
	return [][]byte{report}, nil
}

// admitted returns the numbers that were admitted to a room, in order.
func (w *world) admitted(id int64) (numbers []uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.rooms[id].Events {
		if e.Kind == domain.RoomAdmitted {
			numbers = append(numbers, e.Numbers...)
		}
	}
	return numbers
}

// simulate runs a server in a world with a simulated clock.
func simulate(t *testing.T, w func() *world, fn func(t *testing.T, w *world, server *entry.Service)) {
	synctest.Test(t, func(t *testing.T) {
		w := w()
		server, _ := w.serve(t)
		fn(t, w, server)
	})
}

func (w *world) serve(t *testing.T) (server *entry.Service, stop func()) {
	number := w.servers
	w.servers++
	rooms := entry.NewRooms(entry.RoomsConfig{
		Store: w, Sales: w, Peers: w, Changed: func(int64) {},
		Admitted: func(n int) { w.change(func() { w.calls["admitted buyers"] += n }) },
		Sells: func(context.Context) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if number < w.mute {
				return domain.ErrUnavailable
			}
			return nil
		},
	})
	stop = env.InBackground(t, func(ctx context.Context) { loop.Run(ctx, slog.New(slog.DiscardHandler), rooms.Tasks()...) })
	server = &entry.Service{Sales: w, Passes: entry.NewPasses(oldKey), Tickets: entry.NewTickets(oldKey), Rooms: rooms, Now: time.Now}
	return server, stop
}

// ask sends a poll of the buyer at a place, whose user id is the number.
func ask(t *testing.T, server *entry.Service, voucher int64, number uint32) entry.Admission {
	t.Helper()
	a, err := server.Ask(t.Context(), int64(number), voucher, server.Tickets.Issue(int64(number), voucher, number))
	if err != nil {
		require.NoError(t, err)
	}
	return a
}

// A Redis that does not answer delays no admission, however many rooms are open.
func TestRoomsWhileRedisHangs(t *testing.T) {
	vouchers := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	simulate(t, func() *world { return newWorld(100, vouchers...) }, func(t *testing.T, w *world, server *entry.Service) {
		w.exchange = func(context.Context) error {
			time.Sleep(300 * time.Millisecond) // the time that an exchange may take
			return domain.ErrUnavailable
		}
		time.Sleep(59 * time.Second)
		for _, id := range vouchers {
			for n := range uint32(100) {
				ask(t, server, id, n)
			}
		}
		time.Sleep(6 * time.Second)
		for _, id := range vouchers {
			require.InDelta(t, 45, len(w.admitted(id)), 10, "room %d", id)
		}
	})
}

// The clock of the database goes back by ten minutes during a sale, as after a failover. Buyers are admitted further on.
func TestDatabaseClockGoesBack(t *testing.T) {
	simulate(t, func() *world { return newWorld(100, 1) }, func(t *testing.T, w *world, server *entry.Service) {
		w.vouchers[1].Sale.BeginAt = time.Now().Add(-time.Hour)
		poll := func() {
			for n := range uint32(100) {
				_, _ = server.Ask(t.Context(), int64(n), 1, server.Tickets.Issue(int64(n), 1, n))
			}
		}
		poll()
		time.Sleep(2 * time.Second)
		poll()
		w.change(func() { w.clock = -10 * time.Minute })
		before := len(w.admitted(1))
		require.Positive(t, before)
		time.Sleep(2 * time.Second)
		poll()
		time.Sleep(3 * time.Second)
		require.InDelta(t, before+50, len(w.admitted(1)), 20)
	})
}

// Replies of the database that take a second do not set the clock back, on which the end of a pass depends. If the clock
// of the database itself is changed meanwhile, the error is at most the time that a reply takes.
func TestSlowDatabaseKeepsTime(t *testing.T) {
	simulate(t, func() *world { return newWorld(100, 1) }, func(t *testing.T, w *world, server *entry.Service) {
		requireTime := func(delta time.Duration) {
			for range 50 {
				require.WithinDuration(t, w.now(), env.Must(server.RoomTime(t.Context(), 1))(t), delta)
				time.Sleep(100 * time.Millisecond)
			}
		}
		requireTime(0)
		w.change(func() { w.delay = time.Second })
		requireTime(0)
		for _, clock := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			w.change(func() { w.clock = clock })
			time.Sleep(3 * time.Second) // a reading that was on its way, and one more
			requireTime(time.Second)
		}
		w.change(func() { w.delay = 0 })
		time.Sleep(2 * time.Second)
		requireTime(0)
	})
}

// The totals are the sums over the rooms whose sale has not ended. The buyers that a server admits are counted.
func TestTotals(t *testing.T) {
	simulate(t, func() *world { return newWorld(100, 1, 2) }, func(t *testing.T, w *world, server *entry.Service) {
		require.Zero(t, server.Rooms.Totals(), "no room is in use")
		time.Sleep(58 * time.Second)
		for _, id := range []int64{1, 2} {
			for n := range uint32(100) {
				ask(t, server, id, n)
			}
		}
		time.Sleep(time.Second)
		require.Equal(t, entry.Stats{Lobby: 200, Present: 200}, server.Rooms.Totals())

		time.Sleep(6 * time.Second)
		synctest.Wait() // for a round at this instant
		totals := server.Rooms.Totals()
		require.Positive(t, totals.Admitted)
		require.InDelta(t, 200-totals.Admitted, totals.Present, 20, "as of the exchange before the last admission")
		totals.Present = 0
		require.Equal(t, entry.Stats{Waiting: 200 - totals.Admitted, Admitted: totals.Admitted, Outstanding: totals.Admitted}, totals)
		require.Equal(t, len(w.admitted(1))+len(w.admitted(2)), totals.Admitted)
		require.Equal(t, totals.Admitted, w.count("admitted buyers"))

		w.change(func() { w.vouchers[1].Sale.Stock = 0 })
		time.Sleep(time.Second)
		synctest.Wait()
		totals = server.Rooms.Totals()
		require.Equal(t, 100, totals.Waiting+totals.Admitted, "without the sale that is sold out")
	})
}

// An outage costs no admitted buyer the turn, whatever fails: afterwards the pass is valid for the time that was left, and the
// room holds its unit back meanwhile. A buyer who lets that time pass loses the turn, as without an outage.
// Source: cloudflare/cloudflare-docs#16645, intechnicauk.wordpress.com/tag/ticketing.
func TestOutageKeepsTurns(t *testing.T) {
	const buyers, units = 20, 5
	const ttl = 30 * time.Second
	database := func(w *world, down bool) { w.down = down }
	mute := func(servers int) func(*world, bool) {
		return func(w *world, out bool) { w.mute = map[bool]int{true: servers}[out] }
	}
	status := map[bool]domain.VoucherStatus{false: domain.VoucherOn, true: domain.VoucherOff}
	withdrawn := func(w *world, off bool) { w.vouchers[1].Status = status[off] }

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
		"the room is paused":                    {lasts: 45 * time.Second, set: func(w *world, on bool) { w.vouchers[1].Sale.Entry.Paused = on }},
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
					for _, stop := range stops {
						stop()
					}
					servers = nil
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
		for range 8 {
			ask(t, server, 1, 1)
			time.Sleep(time.Second)
		}
		require.Equal(t, []uint32{0, 1}, w.admitted(1), "the unit goes to the next")
	})
}

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
			if a := ask(t, server, 1, n); a.State != entry.Lobby || a.Poll < (15*time.Second).Milliseconds() {
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
			if a.State == entry.Waiting {
				require.Equal(t, position-len(admitted), *a.Ahead)
			}
		}
		require.Equal(t, calls, w.count(""))
		require.Equal(t, 1, w.count("StartRoom"))
	})
}
