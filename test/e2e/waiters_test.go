package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/repo"
	"seckill/internal/sale/entry"
	"seckill/test/e2e/rig"
)

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
	a, err := tryEntry(t.Context(), p, method, token, sale, ticket)
	require.NoError(t, err)
	return a
}

// Busy reports whether the answer is 503.
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

// Note remembers what an answer says.
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

// Poll asks once.
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

// roomLogOf reads the log of a waiting room.
func roomLogOf(t *testing.T, s *rig.Stack, sale string) *roomLog {
	t.Helper()
	store, err := app.OpenStore(app.Config{MySQLDSN: s.Setting("SECKILL_MYSQL_DSN"), DataDir: s.Setting("SECKILL_DATA_DIR")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })

	id, err := strconv.ParseInt(sale, 10, 64)
	require.NoError(t, err)

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

// Order returns the order of the lobby.
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
