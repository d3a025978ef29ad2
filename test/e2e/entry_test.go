package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/ops/rush"
	"seckill/internal/sale/entry"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestPasses: a sale in mode pass sells only to buyers with a pass, of any server, and a revocation reaches the other server.
// TestPurchaseNeedsPass and TestRevokedPasses of package handler have borrowed passes and repeated requests.
func TestPasses(t *testing.T) {
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Raced("lock/embedded").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Serve(t)
		tokens, admin := s.Tokens(t, 100), a.Admin(t)
		sale := a.Publish(t, rig.Offer{Stock: 90, Entry: rig.Passes})
		rig.RequireProblem(t, http.StatusForbidden, "entry_required", b.Do(t, rig.Purchase(sale, tokens[0])))
		passes := withPasses(t, rig.BuyersOf(sale, 90, tokens), a).Passes
		b.Must(t, rig.Purchase(sale, tokens[0]).Pass(passes[0]))

		a.Must(t, rig.Post("/admin/vouchers/"+sale+"/room", admin, map[string]any{"revoke": true}))
		next := 0
		for _, p := range []*rig.Server{a, b} {
			rig.Eventually(t, "a server refuses the passes", func() bool {
				next++
				_, err := p.Place(t.Context(), tokens[next], sale, "", passes[next])
				return rig.HasCode(err, "entry_required")
			})
		}
		for i := next; i < len(passes); i++ {
			rig.RequireProblem(t, http.StatusForbidden, "entry_required", b.Do(t, rig.Purchase(sale, tokens[i]).Pass(passes[i])))
		}
		b.Must(t, rig.Purchase(sale, tokens[next]).Pass(mustEntry(t, a, http.MethodPost, tokens[next], sale, "").Pass))
	})
}

// TestHoarders lets 60 accounts that never pay compete for 50 units with 100 paying people. The accounts press first
// whenever there are units, on two servers at once. Each of them holds one unit for one pay_timeout at most, so the
// people have 40 units when the first time-out is over and all of them after the second.
func TestHoarders(t *testing.T) {
	const units = 30
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Serve(t)
		tokens := s.Tokens(t, 96)
		sale := a.Publish(t, rig.Offer{Stock: units, Entry: rig.Passes})
		hoarders := rig.BuyersOf(sale, units, tokens[:36], a, b)
		users := make([]string, len(hoarders.Tokens))
		for i, token := range hoarders.Tokens {
			users[i] = rig.UserOf(t, token)
		}
		people, paid := tokens[36:], map[string]string{} // order -> token
		left := func(p *rig.Server) int {
			return int(p.Must(t, rig.Get("/vouchers/"+sale, ""))["stock"].(float64))
		}
		for timeouts := range 3 {
			rig.Eventually(t, "unpaid orders are closed", func() bool { return left(a) == units-len(paid) && left(b) == units-len(paid) })
			held := len(rig.OrdersIn(withPasses(t, hoarders, a).Run(t.Context())))
			if timeouts == 0 {
				rig.Eventually(t, "the accounts hold all units", func() bool { return left(a) == 0 && left(b) == 0 })
			}
			for tries := 0; left(a) > 0 || left(b) > 0; tries++ {
				require.Less(t, tries, 1000, "the people do not get the rest")
				people = buyAndPay(t, withPasses(t, rig.BuyersOf(sale, units, people, a, b), a), a, paid)
			}
			t.Logf("after %d time-outs: the accounts hold %d units, the people have paid for %d", timeouts, held, len(paid))
			rig.RequireSettled(t, s)
			s.Exec(t, "UPDATE voucher_orders SET expires_at = created_at WHERE status = 1 AND user_id IN ("+strings.Join(users, ",")+")") // their time-out
		}
		for order, token := range paid {
			a.WaitFor(t, token, order, "paid")
		}
		require.GreaterOrEqual(t, len(paid), units*9/10)
		s.Verify(t)
	})
}

// buyAndPay lets buyers press once and pay at once. It adds the orders to paid, with the tokens of their buyers, and
// returns the buyers without an order.
func buyAndPay(t *testing.T, buyers *rush.Buyers, p *rig.Server, paid map[string]string) (without []string) {
	t.Helper()
	for i, a := range buyers.Run(t.Context()).Answers {
		order := a.Order.ID + a.OrderID // the latter if the answer to a former request was lost
		if order == "" {
			without = append(without, buyers.Tokens[i])
			continue
		}
		p.Must(t, rig.Pay(order, buyers.Tokens[i]))
		paid[order] = buyers.Tokens[i]
	}
	return without
}

// entryAnswer is the answer of the entry of a sale, or an error with its code.
type entryAnswer struct {
	State     string    `json:"state"`
	Pass      string    `json:"pass"`
	ExpiresAt time.Time `json:"expires_at"`
	Ticket    string    `json:"ticket"`
	Poll      int64     `json:"poll_after_ms"`
	Lobby     struct {
		Number uint32
	} `json:"lobby"`
	Code string `json:"code"`
}

// entryRequest is a request to the entry of a sale. Its buyer keeps the connection.
func entryRequest(method, token, sale, ticket string) rig.Request {
	r := rig.Request{Method: method, Path: "/api/v1/vouchers/" + sale + "/entry", Token: token, Reuse: true}
	if ticket != "" {
		r = r.With("X-Entry-Ticket", ticket)
	}
	return r
}

func entryAnswerOf(a rig.Answer, err error) (entryAnswer, error) {
	var e entryAnswer
	if err == nil && a.Text != "" {
		err = json.Unmarshal([]byte(a.Text), &e)
	}

	return e, err
}

// askEntry sends a request to the entry of a sale once.
func askEntry(ctx context.Context, p *rig.Server, method, token, sale, ticket string) (entryAnswer, error) {
	return entryAnswerOf(p.Send(ctx, entryRequest(method, token, sale, ticket)))
}

// tryEntry is askEntry for a request that is repeated while the server is busy.
func tryEntry(ctx context.Context, p *rig.Server, method, token, sale, ticket string) (entryAnswer, error) {
	return entryAnswerOf(p.Try(ctx, entryRequest(method, token, sale, ticket)))
}

// mustEntry is tryEntry for a request that must be answered.
func mustEntry(t *testing.T, p *rig.Server, method, token, sale, ticket string) entryAnswer {
	t.Helper()
	return env.Must(tryEntry(t.Context(), p, method, token, sale, ticket))(t)
}

func (a entryAnswer) Busy() bool { return a.Code == "unavailable" || a.Code == "overloaded" }

// Pause waits as long as the server says, a second at most.
func (a entryAnswer) Pause(ctx context.Context) {
	poll := time.Duration(a.Poll) * time.Millisecond
	_ = rig.Sleep(ctx, min(max(poll, 50*time.Millisecond), time.Second))
}

// roomSale publishes a sale with a waiting room that begins after a time. Its lobby is open.
func roomSale(t *testing.T, p *rig.Server, stock int64, rate, passTTL int, after time.Duration) string {
	t.Helper()
	now := time.Now()

	return p.Publish(t, rig.Offer{
		Stock:   stock,
		BeginAt: now.Add(after),
		Entry: map[string]any{
			"mode":     "room",
			"rate":     rate,
			"pass_ttl": passTTL,
			"opens_at": now.Add(-time.Minute),
		},
	})
}

// beginSale begins a sale now. A test whose buyers enter the lobby first depends on no speed.
func beginSale(t *testing.T, p *rig.Server, sale string) {
	t.Helper()
	p.Must(t, rig.Patch("/admin/vouchers/"+sale, p.Admin(t), map[string]any{"begin_at": time.Now().UTC()}))
}

// waiter is a buyer of a room.
type waiter struct {
	P      *rig.Server
	Token  string
	Sale   string
	Ticket string
	Number uint32
	// By expiry. Two polls may be on their way.
	mu     sync.Mutex
	Passes map[time.Time]string
}

func (w *waiter) Note(a entryAnswer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.Ticket != "" && a.Ticket != w.Ticket {
		w.Ticket = a.Ticket
		w.Number = a.Lobby.Number
	}
	if a.Pass != "" {
		w.Passes[a.ExpiresAt] = a.Pass
	}
}

func (w *waiter) Poll(ctx context.Context) (entryAnswer, error) {
	a, err := askEntry(ctx, w.P, http.MethodGet, w.Token, w.Sale, w.Ticket)
	w.Note(a)
	return a, err
}

// Wait polls, at least once a second, until the buyer has a pass or the answer is final. A buyer whose server does not answer
// asks another one.
func (w *waiter) Wait(ctx context.Context, others ...*rig.Server) entryAnswer {
	for {
		a, err := w.Poll(ctx)
		if ctx.Err() != nil {
			return a
		}

		if err != nil && len(others) > 0 {
			w.P = others[0]
			others = others[1:]
			continue
		}

		if a.Pass != "" || a.Code != "" && !a.Busy() {
			return a
		}

		a.Pause(ctx)
	}
}

// Pass returns the only pass of the buyer.
func (w *waiter) Pass() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pass := range w.Passes {
		return pass
	}
	return ""
}

// Watch follows the event stream of the place and returns the code of its end, or an error.
func (w *waiter) Watch(ctx context.Context) string {
	stream, err := w.P.Open(ctx, rig.Get("/vouchers/"+w.Sale+"/entry/events", w.Token).With("X-Entry-Ticket", w.Ticket))
	if err != nil {
		return err.Error()
	}
	defer stream.Close()

	for {
		var a entryAnswer
		event, err := stream.Next(&a)
		if err != nil {
			return err.Error()
		}
		if event == "end" {
			return a.Code
		}
	}
}

// roomOf returns a function that reads a room from the database. It repeats a read whose answer comes too late.
func roomOf(t *testing.T, s *rig.Stack, sale string) func() domain.Room {
	t.Helper()
	store := env.Must(app.OpenStore(app.Config{MySQLDSN: s.Setting("SECKILL_MYSQL_DSN"), DataDir: s.Setting("SECKILL_DATA_DIR")}))(t)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	id := env.Must(strconv.ParseInt(sale, 10, 64))(t)

	return func() domain.Room {
		var rooms []domain.Room
		var err error
		rig.Eventually(t, "the database answers", func() bool {
			rooms, _, err = store.Rooms(t.Context(), map[int64]domain.RoomCursor{id: {}})
			return !errors.Is(err, domain.ErrUnavailable)
		})

		require.NoError(t, err)
		return env.Only(t, rooms)
	}
}

// admittedTo returns the numbers that a room has admitted, in order. There are fewer than the 500 events of one read.
func admittedTo(room domain.Room) []uint32 {
	var numbers []uint32
	for _, e := range room.Events {
		if e.Kind == domain.RoomAdmitted {
			numbers = append(numbers, e.Numbers...)
		}
	}

	return numbers
}

// lobbyOf returns the numbers of the lobby of a room in the order of the draw.
func lobbyOf(room domain.Room) []uint32 { return entry.LobbyOrder(room.Seed, room.Size) }

// verifyRoom requires that `seckill room verify` reports no violation, and returns its output.
func verifyRoom(t *testing.T, s *rig.Stack, sale string) string {
	t.Helper()
	return s.Exits(t, 0, "room", "verify", "--voucher", sale)
}

// TestRoomTickets: concurrent requests of an account on two servers get one place. Forged, borrowed and lost tickets are refused
// on both, and `seckill room verify` finds what is missing in the log. TestPurchaseNeedsPass of package handler has the passes.
func TestRoomTickets(t *testing.T) {
	t.Parallel()
	s := rig.RealStack(t)
	a, b := s.Serve(t), s.Serve(t)
	servers, tokens := []*rig.Server{a, b}, s.Tokens(t, 12)
	sale, other := roomSale(t, a, 100, 20, 60, time.Hour), roomSale(t, a, 100, 1, 60, time.Hour)
	numbers := make([]uint32, 20*len(tokens))
	concurrently(len(numbers), func(i int) {
		place, err := tryEntry(t.Context(), servers[i%2], http.MethodPost, tokens[i/20], sale, "")
		assert.True(t, err == nil && place.Code == "", "%v %s", err, place.Code)
		numbers[i] = place.Lobby.Number
	})
	all := enter(t, sale, tokens, a, b)
	for i, n := range numbers {
		require.Equal(t, all[i/20].Number, n, "an account has one place")
	}
	slices.Sort(numbers)
	require.Len(t, slices.Compact(numbers), len(tokens), "no two accounts have one number")

	refused := func(method, token, sale, ticket string) {
		for _, p := range servers {
			require.Equal(t, "entry_required", mustEntry(t, p, method, token, sale, ticket).Code)
		}
	}
	forged := "B" + all[0].Ticket[1:]
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		refused(method, all[0].Token, sale, all[1].Ticket)
		refused(method, all[0].Token, other, all[0].Ticket)
		refused(method, all[0].Token, sale, forged)
		refused(method, all[0].Token, sale, "")
	}
	left := all[11]
	require.Empty(t, mustEntry(t, b, http.MethodDelete, left.Token, sale, left.Ticket).Code)
	rig.Eventually(t, "the place is lost on both servers", func() bool {
		return mustEntry(t, a, http.MethodGet, left.Token, sale, left.Ticket).Code == "entry_required" &&
			mustEntry(t, b, http.MethodGet, left.Token, sale, left.Ticket).Code == "entry_required"
	})
	require.Equal(t, uint32(12), mustEntry(t, a, http.MethodPost, left.Token, sale, "").Lobby.Number, "a new place is at the end")
	refused(http.MethodGet, left.Token, sale, left.Ticket)

	require.Regexp(t, `places +13\n`, verifyRoom(t, s, sale))
	s.Exec(t, "INSERT INTO room_log (voucher_id, seq, kind, at, data) VALUES ("+sale+", 900, 1, '2026-11-11 12:00:00', x'00')")
	require.Contains(t, s.Exits(t, rig.ExitViolation, "room", "verify", "--voucher", sale), "is missing")
	s.Exits(t, rig.ExitUnchecked, "room", "verify", "--voucher", "999")
}

func enter(t *testing.T, sale string, tokens []string, servers ...*rig.Server) []*waiter {
	t.Helper()
	all := make([]*waiter, len(tokens))
	concurrently(len(tokens), func(i int) {
		w := &waiter{P: servers[i%len(servers)], Token: tokens[i], Sale: sale, Passes: map[time.Time]string{}}
		a, _ := tryEntry(t.Context(), w.P, http.MethodPost, w.Token, sale, "") // without an answer there is no ticket
		w.Note(a)
		all[i] = w
	})
	for _, w := range all {
		require.NotEmpty(t, w.Ticket)
	}
	return all
}

// TestRoomIsFairToPeople: bots press 600 times a second from one address, from before the sale until it is sold out,
// on every route and on both servers, and buy at once when they are admitted. People enter once, and react in 0.3 to
// 2 s. The bots' share of the units is their share of the accounts, within 3 points.
//
// Chance alone: the number of bots among the 1,000 of 2,000 accounts that get a unit is hypergeometric with 10 % bots.
// The standard deviation of their share is sqrt(0.1 * 0.9 / 1,000 * 1,000 / 1,999) = 0.67 points, so that 3 points are
// 4.5 of them: one run in 140,000.
func TestRoomIsFairToPeople(t *testing.T) {
	env.FullParallel(t)
	const accounts, bots, units, presses = 2000, 200, 1000, 600
	s := rig.RealStack(t)
	servers := []*rig.Server{s.Serve(t), s.Serve(t)}
	tokens := s.Tokens(t, accounts)
	sale := roomSale(t, servers[0], units, 1000, 60, time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var (
		buyers, lobby   sync.WaitGroup
		toBots, toAll   atomic.Int64
		pressed, robbed atomic.Int64
	)
	react := func() time.Duration { return 300*time.Millisecond + rand.N(1700*time.Millisecond) }
	for i, token := range tokens {
		p, bot := servers[i%2], i < bots
		lobby.Add(1)
		buyers.Go(func() {
			if !bot {
				_ = rig.Sleep(ctx, react())
			}
			w := &waiter{P: p, Token: token, Sale: sale, Passes: map[time.Time]string{}}
			for w.Ticket == "" && ctx.Err() == nil {
				a, _ := askEntry(ctx, p, http.MethodPost, token, sale, "")
				w.Note(a)
			}
			lobby.Done()
			if a := w.Wait(ctx); a.Pass == "" {
				return
			}
			if !bot {
				_ = rig.Sleep(ctx, react())
			}
			if a, err := p.Try(ctx, rig.Purchase(sale, token).Pass(w.Pass())); err == nil && a.Success() {
				if toAll.Add(1); bot {
					toBots.Add(1)
				}
			}
		})
	}
	pressing, stop := context.WithCancel(ctx)
	limit := rate.NewLimiter(presses, presses/10)
	var keys sync.WaitGroup
	for range 64 {
		keys.Go(func() {
			for limit.Wait(pressing) == nil {
				n := pressed.Add(1)
				token, p := tokens[n%bots], servers[n/bots%2]
				switch n % 3 {
				case 0:
					_, _ = askEntry(pressing, p, http.MethodPost, token, sale, "")
				case 1:
					_, _ = askEntry(pressing, p, http.MethodGet, token, sale, "forged")
				case 2:
					if _, err := p.Place(pressing, token, sale, "", "forged"); err == nil {
						robbed.Add(1)
					}
				}
			}
		})
	}
	began := time.Now()
	lobby.Wait()
	beginSale(t, servers[0], sale)
	buyers.Wait()
	stop()
	keys.Wait()
	require.NoError(t, ctx.Err())
	require.Zero(t, robbed.Load(), "purchases without a pass")
	require.Equal(t, int64(units), toAll.Load())
	require.Len(t, lobbyOf(roomOf(t, s, sale)()), accounts, "all were in the lobby")
	share := float64(toBots.Load()) / units
	t.Logf("%d%% of the accounts got %.1f%% of the units with %.0f presses per second",
		100*bots/accounts, 100*share, float64(pressed.Load())/time.Since(began).Seconds())
	require.InDelta(t, float64(bots)/accounts, share, 0.03)
	verifyRoom(t, s, sale)
	s.Verify(t)
}

// TestRoomSurvivesFaults: while a room is full, Redis loses its data, one of four servers is killed, and the clocks of two
// others are wrong by ten minutes. Each buyer is admitted once, with the same place and the same pass on every server,
// and buys with it on a server that did not give it.
func TestRoomSurvivesFaults(t *testing.T) {
	env.FullParallel(t)
	s := rig.RealStack(t)
	const buyers, rate = 240, 40
	clock := func(off time.Duration) *rig.Stack {
		return s.With(rig.EnvClock + "=" + time.Now().Add(off).UTC().Format(time.RFC3339))
	}
	right, killed := s.Serve(t), s.Spawn(t, "")
	fast, slow := clock(10*time.Minute).Serve(t), clock(-10*time.Minute).Serve(t)
	sale := roomSale(t, right, buyers, rate, 600, 3*time.Second)
	room := roomOf(t, s, sale)
	all := enter(t, sale, s.Tokens(t, buyers), right, killed, fast, slow)
	numbers := make([]uint32, buyers)
	for i, w := range all {
		numbers[i] = w.Number
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var waiting sync.WaitGroup
	for _, w := range all {
		waiting.Go(func() { w.Wait(ctx, right, fast) })
	}
	rig.Eventually(t, "buyers are admitted", func() bool { return len(admittedTo(room())) > 20 })
	require.NoError(t, s.Flush())
	killed.Kill()
	waiting.Wait()
	require.NoError(t, ctx.Err(), "all are admitted")

	admitted := admittedTo(room())
	require.ElementsMatch(t, numbers, admitted, "each place is admitted once")
	servers := []*rig.Server{right, fast, slow}
	concurrently(buyers, func(i int) {
		w := all[i]
		for _, p := range servers {
			a, err := tryEntry(ctx, p, http.MethodGet, w.Token, sale, w.Ticket)
			if err != nil || a.Pass == "" {
				t.Errorf("%s: no pass: %v %+v", p.URL, err, a)
			}
			w.Note(a)
		}
		p := servers[i%len(servers)]
		if a, err := p.Try(ctx, rig.Purchase(sale, w.Token).Pass(w.Pass())); err != nil || !a.Success() {
			t.Errorf("%s: %v %s", p.URL, err, a.Text)
		}
	})
	// On a machine that stands still, no server may sell for five seconds, which passes are given back.
	outages := 0
	for _, e := range room().Events {
		if e.Kind == domain.RoomResumed {
			outages++
		}
	}
	for i, w := range all {
		require.Equal(t, numbers[i], w.Number)
		require.LessOrEqual(t, len(w.Passes), 1+outages, "number %d: %v", w.Number, w.Passes)
	}
	verifyRoom(t, s, sale)
	rig.RequireStock(t, right.Client, sale, 0)
	s.Verify(t)
}

// TestRoomSoldOut checks in every lane that there are no more passes than units, that all waiting buyers learn of the end
// of the stock, by polls and on streams, and that a returned unit goes to the next in line although
// scripts and its former buyer press all the time.
func TestRoomSoldOut(t *testing.T) {
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Raced("lock/embedded").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		const units, buyers, scripts = 10, 80, 5
		a, b := s.Serve(t), s.Spawn(t, "")
		servers, tokens := []*rig.Server{a, b}, s.Tokens(t, buyers+scripts)
		admin, sale := a.Admin(t), roomSale(t, a, units, 50, 60, time.Hour)
		room := roomOf(t, s, sale)
		all := enter(t, sale, tokens[:buyers], servers...)
		beginSale(t, a, sale)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		codes := make(chan string, buyers)
		for _, w := range all {
			go func() { codes <- w.Wait(ctx).Code }()
		}
		rig.Eventually(t, "the first buyers are admitted", func() bool { return len(admittedTo(room())) >= units })
		a.Must(t, rig.Post("/admin/vouchers/"+sale+"/room", admin, map[string]any{"rate": 1}))
		for range units {
			require.Empty(t, <-codes)
		}
		first, waiting := admittedTo(room()), lobbyOf(room())
		require.Len(t, first, units, "as many passes as units")
		require.Len(t, waiting, buyers)
		// A server that cannot reach Redis, as on a machine that stands still, admits its own buyers. The others are next, in the
		// order of the draw.
		waiting = slices.DeleteFunc(waiting, func(n uint32) bool { return slices.Contains(first, n) })
		order := slices.Concat(first, waiting)
		line := make([]*waiter, buyers)
		for _, w := range all {
			line[slices.Index(order, w.Number)] = w
		}

		streams := make(chan string, buyers)
		for _, w := range line[units:] {
			go func() { streams <- w.Watch(ctx) }()
		}
		var orders []string
		for i, w := range line[:units] {
			o := servers[i%2].Do(t, rig.Purchase(sale, w.Token).Pass(w.Pass())).Order()
			rig.RequireOrdered(t, a, w.Token, o)
			orders = append(orders, o)
		}
		for _, w := range line[units:] {
			rig.Eventually(t, "a poll is answered sold_out", func() bool {
				return mustEntry(t, servers[w.Number%2], http.MethodGet, w.Token, sale, w.Ticket).Code == "sold_out"
			})
		}
		for range line[units:] {
			end, _ := next(t, streams)
			require.Equal(t, "sold_out", end)
		}

		// The next in line and those behind keep polling. Scripts without a place, and the former buyer, press.
		var pressing sync.WaitGroup
		var polls atomic.Int64
		admitted := make(chan *waiter, buyers)
		for _, w := range line[units:] {
			pressing.Go(func() {
				for ctx.Err() == nil {
					if answer, _ := w.Poll(ctx); answer.Pass != "" {
						admitted <- w
						return
					}
					polls.Add(1)
					_ = rig.Sleep(ctx, 100*time.Millisecond)
				}
			})
		}
		winner := line[0]
		press := func(token, pass string) {
			for ctx.Err() == nil {
				_, _ = askEntry(ctx, b, http.MethodPost, token, sale, "")
				if o, err := a.Place(ctx, token, sale, "", pass); err == nil {
					t.Errorf("a script has the order %s", o.ID)
					return
				}
			}
		}
		rig.Eventually(t, "all of them are present", func() bool { return polls.Load() > 2*(buyers-units) })
		for _, token := range tokens[buyers:] {
			pressing.Go(func() { press(token, winner.Pass()) })
		}
		pressing.Go(func() { press(winner.Token, winner.Pass()) }) // until the order is cancelled: duplicate_order
		a.MustCancel(t, winner.Token, orders[0])
		got, _ := next(t, admitted) // the unit came back
		require.Equal(t, order[units], got.Number)
		b.BuyReturned(t, rig.Purchase(sale, got.Token).Pass(got.Pass()))
		stop()
		pressing.Wait()
		require.Equal(t, order[:units+1], admittedTo(room()))
		verifyRoom(t, s, sale)
		s.Verify(t)
	})
}

// balancer sends each request of a client to the server after that of the client's last one, so a purchase always reaches
// another server than the answer with the pass.
type balancer struct {
	servers []atomic.Pointer[rig.Server]
	// forgiven counts the requests that were repeated, because a server had stopped or was not ready.
	forgiven atomic.Int64
}

func newBalancer(servers ...*rig.Server) *balancer {
	b := &balancer{servers: make([]atomic.Pointer[rig.Server], len(servers))}
	for i, p := range servers {
		b.servers[i].Store(p)
	}
	return b
}

// from returns a client's next servers, the first of which is that of a number.
func (b *balancer) from(turn int) (next func() *rig.Server) {
	return func() *rig.Server {
		turn++
		return b.servers[turn%len(b.servers)].Load()
	}
}

// busyPause is the Retry-After of a busy server.
const busyPause = time.Second

// program buys, if the sale asks for a pass as soon as it has one. It returns the code of the answer that ended its wait: "bought"
// or an error.
func (b *balancer) program(ctx context.Context, next func() *rig.Server, token, sale string) string {
	if code := b.buy(ctx, next, token, sale, ""); code != "entry_required" && code != "sale_not_started" {
		return code
	}

	method := http.MethodPost
	ticket := ""
	for ctx.Err() == nil {
		a, err := askEntry(ctx, next(), method, token, sale, ticket)
		switch {
		case err != nil || a.Busy():
			b.forgiven.Add(1)
			_ = rig.Sleep(ctx, busyPause)
			continue
		case a.Code != "":
			return a.Code
		case a.Pass != "":
			return b.buy(ctx, next, token, sale, a.Pass)
		}
		method = http.MethodGet
		ticket = a.Ticket
		a.Pause(ctx)
	}
	return "timeout"
}

// buy buys a unit with a pass. A purchase whose answer was lost may have its order.
func (b *balancer) buy(ctx context.Context, next func() *rig.Server, token, sale, pass string) string {
	for ctx.Err() == nil {
		a, err := next().Send(ctx, rig.Purchase(sale, token).Pass(pass))
		switch {
		case err == nil && (a.Success() || a.Field("code") == "duplicate_order"):
			return "bought"
		case err == nil && !a.Busy():
			return a.Field("code")
		}
		b.forgiven.Add(1)
		_ = rig.Sleep(ctx, busyPause)
	}
	return "timeout"
}

// start lets programs buy, and returns a function that waits for them and returns how many of them ended with each code.
func (b *balancer) start(t *testing.T, tokens []string, sale string) (wait func() map[string]int) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	codes := make(chan string, len(tokens))
	for i, token := range tokens {
		go func() { codes <- b.program(ctx, b.from(i), token, sale) }()
	}

	return func() map[string]int {
		defer cancel()
		counts := map[string]int{}
		for range tokens {
			counts[<-codes]++
		}
		return counts
	}
}

// Behind a balancer that sends each request to the next of two or three servers, every unit is sold long before the
// passes expire, as on one server: a purchase counts against its pass whichever server it reaches. The log has the times.
func TestRoomBehindBalancer(t *testing.T) {
	rig.Full("lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		const units, programs, passTTL = 100, 150, 3600
		servers := []*rig.Server{s.Serve(t), s.Serve(t), s.Serve(t)}
		tokens := s.Tokens(t, programs)
		for n := 1; n <= len(servers); n++ {
			sale := roomSale(t, servers[0], units, 50, passTTL, time.Second)
			b := newBalancer(servers[:n]...)
			began := time.Now()
			require.Equal(t, map[string]int{"bought": units, "sold_out": programs - units}, b.start(t, tokens, sale)())
			t.Logf("servers: %d, last unit after %v, repeated requests: %d", n, time.Since(began), b.forgiven.Load())
			require.LessOrEqual(t, b.forgiven.Load(), int64(5*programs), "without a fault, only a busy machine is forgiven")

			rig.RequireStock(t, servers[0].Client, sale, 0)
			verifyRoom(t, s, sale)
		}
		s.Verify(t)
	})
}

// Each of three servers stops in the middle of a sale with a waiting room, one of them by SIGKILL, and starts again. What
// it knew of the passes that had bought is not lost: every unit is sold long before the passes expire.
func TestRoomSurvivesRestarts(t *testing.T) {
	rig.Full("lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		const units, programs, passTTL, rate = 120, 180, 3600, 15
		servers := []*rig.Server{s.Spawn(t, ""), s.Spawn(t, ""), s.Spawn(t, "")}
		sale := roomSale(t, servers[0], units, rate, passTTL, 2*time.Second)
		b := newBalancer(servers...)
		wait := b.start(t, s.Tokens(t, programs), sale)
		for i, p := range servers {
			rig.Eventually(t, "the sale goes on", func() bool { return s.StockOf(t, sale) <= int64(units-(i+1)*units/5) })
			if i == 0 {
				p.Kill()
			} else {
				require.Zero(t, p.Stop(t))
			}
			servers[i] = s.Spawn(t, strings.TrimPrefix(p.URL, "http://"))
			b.servers[i].Store(servers[i])
		}
		require.Equal(t, map[string]int{"bought": units, "sold_out": programs - units}, wait())
		t.Logf("%d requests were repeated", b.forgiven.Load())
		require.LessOrEqual(t, b.forgiven.Load(), int64(20*programs), "each server is away for seconds")

		rig.RequireStock(t, servers[0].Client, sale, 0)
		verifyRoom(t, s, sale)
		s.Verify(t)
	})
}
