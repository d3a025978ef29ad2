package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/ops/rush"
	"seckill/internal/repo"
	"seckill/internal/sale/entry"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestPasses checks that a sale in mode pass sells only to buyers with a pass, on every server, and that
// a revocation reaches the other server.
func TestPasses(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Raced("lock/embedded").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Serve(t)
		tokens, admin := s.Tokens(t, 100), a.Admin(t)
		sale := a.Sale(t, 90)
		a.Must(t, rig.Patch("/admin/vouchers/"+sale, admin, rig.PassMode))
		rig.Eventually(t, "both servers require passes", func() bool {
			_, errA := a.Place(t.Context(), tokens[0], sale, "", "")
			_, errB := b.Place(t.Context(), tokens[0], sale, "", "")
			return rig.HasCode(errA, "entry_required") && rig.HasCode(errB, "entry_required")
		})
		passes := make([]string, len(tokens))
		for i, token := range tokens {
			passes[i] = mustEntry(t, a, http.MethodPost, token, sale, "").Pass
			require.NotEmpty(t, passes[i])
		}
		requireRefused(t, b, "entry_required", tokens[1], sale, passes[0])
		keyed := func(p *rig.Server) rig.Answer {
			return p.Once(t, rig.Purchase(sale, tokens[0]).Pass(passes[0]).Keyed("k").With("Prefer", "wait=3"))
		}
		var first rig.Answer
		rig.Eventually(t, "the purchase is an order", func() bool { first = keyed(b); return first.Status == http.StatusCreated })

		a.Must(t, rig.Post("/admin/vouchers/"+sale+"/room", admin, map[string]any{"revoke": true}))
		requireRefused(t, a, "entry_required", tokens[1], sale, passes[1])
		next := 1
		rig.Eventually(t, "the other server refuses the passes", func() bool {
			next++
			_, err := b.Place(t.Context(), tokens[next], sale, "", passes[next])
			return rig.HasCode(err, "entry_required")
		})
		for i := next; i < len(tokens); i++ {
			requireRefused(t, b, "entry_required", tokens[i], sale, passes[i])
		}
		var again rig.Answer
		rig.Eventually(t, "the server is not too busy", func() bool { again = keyed(a); return again.Status == http.StatusCreated })
		require.Equal(t, first.Body["id"], again.Body["id"], "a repeated request returns its order")

		c := withPasses(t, rig.BuyersOf(sale, 90, tokens, a, b), a)
		rig.RequireInvariants(t, s, c, c.Run(t.Context()))
	})
}

// TestHoarders lets 60 accounts that never pay compete for 50 units with 100 paying people. The accounts press first
// whenever there are units, on two servers at once. Each of them holds one unit for one pay_timeout at most, so the
// people have 40 units when the first time-out is over and all of them after the second.
func TestHoarders(t *testing.T) {
	t.Parallel()
	const units = 50
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Serve(t)
		tokens := s.Tokens(t, 160)
		sale := a.Publish(t, rig.Offer{Stock: units, Entry: map[string]any{"mode": "pass", "pass_ttl": 3600}})
		hoarders := rig.BuyersOf(sale, units, tokens[:60], a, b)
		users := make([]string, len(hoarders.Tokens))
		for i, token := range hoarders.Tokens {
			users[i] = rig.UserOf(t, token)
		}
		people, paid := tokens[60:], map[string]string{} // order -> token
		left := func(p *rig.Server) int {
			return int(rig.Answered(t, func() (rush.Voucher, error) { return p.Voucher(t.Context(), sale) }).Stock)
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
	// Closed when the sale begins; wait then polls soon.
	Begun <-chan struct{}
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

// Wait polls as the server says until the buyer has a pass or the answer is final. A buyer whose server does not answer
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

		select {
		case <-ctx.Done():
		case <-w.Begun:
			// The server of the buyer has learned of it.
			if a.State != "lobby" {
				w.Begun = nil
			}
			_ = rig.Sleep(ctx, 200*time.Millisecond)
		case <-time.After(max(time.Duration(a.Poll)*time.Millisecond, 50*time.Millisecond)):
		}
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

// Watch follows the event stream of the place and returns the code of its end.
func (w *waiter) Watch(ctx context.Context) (string, error) {
	stream, err := w.P.Open(ctx, rig.Get("/vouchers/"+w.Sale+"/entry/events", w.Token).With("X-Entry-Ticket", w.Ticket))
	if err != nil {
		return "", err
	}
	defer stream.Close()

	for {
		var a entryAnswer
		event, err := stream.Next(&a)
		if err != nil || event == "end" {
			return a.Code, err
		}
	}
}

// roomLog is the log of a room in the database.
type roomLog struct {
	store *repo.Store
	id    int64
}

func roomLogOf(t *testing.T, s *rig.Stack, sale string) *roomLog {
	t.Helper()
	store, err := app.OpenStore(app.Config{MySQLDSN: s.Setting("SECKILL_MYSQL_DSN"), DataDir: s.Setting("SECKILL_DATA_DIR")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })

	id := env.Must(strconv.ParseInt(sale, 10, 64))(t)

	return &roomLog{store, id}
}

// read reads the room. It repeats a read whose answer comes too late.
func (l *roomLog) read(t *testing.T) domain.Room {
	t.Helper()
	var rooms []domain.Room
	var err error
	rig.Eventually(t, "the database answers", func() bool {
		rooms, _, err = l.store.Rooms(t.Context(), map[int64]domain.RoomCursor{l.id: {}})
		return !errors.Is(err, domain.ErrUnavailable)
	})

	require.NoError(t, err)
	require.Len(t, rooms, 1)
	return rooms[0]
}

// Admitted returns the numbers that were admitted, in order. There are fewer than the 500 events of one read.
func (l *roomLog) Admitted(t *testing.T) []uint32 {
	t.Helper()

	var numbers []uint32
	for _, e := range l.read(t).Events {
		if e.Kind == domain.RoomAdmitted {
			numbers = append(numbers, e.Numbers...)
		}
	}

	return numbers
}

func (l *roomLog) Order(t *testing.T) []uint32 {
	t.Helper()
	room := l.read(t)
	return entry.LobbyOrder(room.Seed, room.Size)
}

// verifyRoom requires that `seckill room verify` reports no violation, and returns its output.
func verifyRoom(t *testing.T, s *rig.Stack, sale string) string {
	t.Helper()
	return s.Exits(t, 0, "room", "verify", "--voucher", sale)
}

// requireRefused requires that a purchase with a pass is refused with a code.
func requireRefused(t *testing.T, p *rig.Server, code, token, sale, pass string) {
	t.Helper()
	require.Equal(t, code, p.Do(t, rig.Purchase(sale, token).Pass(pass)).Field("code"))
}
