package rig

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/ops/rush"
	"seckill/internal/repo"
	"seckill/internal/sale/entry"
)

// entryAnswer is the answer of the entry of a sale, or an error with its code.
type entryAnswer struct {
	State     string    `json:"state"`
	Pass      string    `json:"pass"`
	ExpiresAt time.Time `json:"expires_at"`
	Ticket    string    `json:"ticket"`
	Ahead     *int      `json:"ahead"`
	Poll      int64     `json:"poll_after_ms"`
	Paused    bool      `json:"paused"`
	Message   string    `json:"message"`
	Lobby     struct {
		Number uint32
	} `json:"lobby"`
	Code string `json:"code"`
}

// entryRequest is a request to the entry of a sale. Its buyer keeps the connection.
func entryRequest(method, token, sale, ticket string) Request {
	r := Request{Method: method, Path: "/api/v1/vouchers/" + sale + "/entry", Token: token, reuse: true}
	if ticket != "" {
		r = r.With("X-Entry-Ticket", ticket)
	}
	return r
}

func entryAnswerOf(a Answer, err error) (entryAnswer, error) {
	var e entryAnswer
	if err == nil && a.Text != "" {
		err = json.Unmarshal([]byte(a.Text), &e)
	}

	return e, err
}

// Entry sends a request to the entry of a sale once.
func (p *Server) Entry(ctx context.Context, method, token, sale, ticket string) (entryAnswer, error) {
	return entryAnswerOf(p.Send(ctx, entryRequest(method, token, sale, ticket)))
}

// TryEntry is Entry for a request that is repeated while the server is busy.
func (p *Server) TryEntry(ctx context.Context, method, token, sale, ticket string) (entryAnswer, error) {
	return entryAnswerOf(p.Try(ctx, entryRequest(method, token, sale, ticket)))
}

// MustEntry is TryEntry for a request that must be answered.
func (p *Server) MustEntry(t *testing.T, method, token, sale, ticket string) entryAnswer {
	t.Helper()
	a, err := p.TryEntry(t.Context(), method, token, sale, ticket)
	require.NoError(t, err)
	return a
}

// Busy reports whether the answer is 503.
func (a entryAnswer) Busy() bool { return a.Code == "unavailable" || a.Code == "overloaded" }

// RoomSale publishes a sale with a waiting room that begins after a time. Its lobby is open.
func (p *Server) RoomSale(t *testing.T, stock int64, rate, passTTL int, after time.Duration) string {
	t.Helper()
	now := time.Now()

	return p.Publish(t, Offer{
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

// BeginSale begins a sale now. A test whose buyers enter the lobby first depends on no speed.
func (p *Server) BeginSale(t *testing.T, sale string) {
	t.Helper()
	p.Must(t, Patch("/admin/vouchers/"+sale, p.Admin(t), map[string]any{"begin_at": time.Now().UTC()}))
}

// ChangeRoom changes the waiting room of a sale.
func (p *Server) ChangeRoom(t *testing.T, admin, sale string, change map[string]any) {
	t.Helper()
	p.Must(t, Post("/admin/vouchers/"+sale+"/room", admin, change))
}

// Waiter is a buyer of a room.
type Waiter struct {
	P      *Server
	Token  string
	Sale   string
	Ticket string
	Number uint32
	// By expiry.
	Passes map[time.Time]string
	// Closed when the sale begins; wait then polls soon.
	Begun <-chan struct{}
}

// Note remembers what an answer says.
func (w *Waiter) Note(a entryAnswer) {
	if a.Ticket != "" {
		w.Ticket = a.Ticket
		w.Number = a.Lobby.Number
	}
	if a.Pass != "" {
		w.Passes[a.ExpiresAt] = a.Pass
	}
}

// Poll asks once.
func (w *Waiter) Poll(ctx context.Context) (entryAnswer, error) {
	a, err := w.P.Entry(ctx, http.MethodGet, w.Token, w.Sale, w.Ticket)
	w.Note(a)
	return a, err
}

// Wait polls as the server says until the buyer has a pass or the answer is final. A buyer whose server does not answer
// asks another one.
func (w *Waiter) Wait(ctx context.Context, others ...*Server) entryAnswer {
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
			_ = Sleep(ctx, 200*time.Millisecond)
		case <-time.After(max(time.Duration(a.Poll)*time.Millisecond, 50*time.Millisecond)):
		}
	}
}

// Pass returns the only pass of the buyer.
func (w *Waiter) Pass() string {
	for _, pass := range w.Passes {
		return pass
	}
	return ""
}

// Watch follows the event stream of the place and returns the code of its end.
func (w *Waiter) Watch(ctx context.Context) (string, error) {
	stream, err := w.P.Open(ctx, Get("/vouchers/"+w.Sale+"/entry/events", w.Token).With("X-Entry-Ticket", w.Ticket))
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

// RoomLog reads the log of a waiting room.
func (s *Stack) RoomLog(t *testing.T, sale string) *roomLog {
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
	Eventually(t, "the database answers", func() bool {
		rooms, _, err = l.store.Rooms(t.Context(), map[int64]domain.RoomCursor{l.id: {}})
		return !errors.Is(err, domain.ErrUnavailable)
	})

	require.NoError(t, err)
	require.Len(t, rooms, 1)
	return rooms[0]
}

// Admissions returns the admissions of the room so far. There are fewer than the 500 events of one read.
func (l *roomLog) Admissions(t *testing.T) []domain.RoomEvent {
	t.Helper()

	var events []domain.RoomEvent
	for _, e := range l.read(t).Events {
		if e.Kind == domain.RoomAdmitted {
			events = append(events, e)
		}
	}

	return events
}

// Admitted returns the numbers that were admitted, in order.
func (l *roomLog) Admitted(t *testing.T) []uint32 {
	t.Helper()

	var numbers []uint32
	for _, e := range l.Admissions(t) {
		numbers = append(numbers, e.Numbers...)
	}

	return numbers
}

// Order returns the order of the lobby.
func (l *roomLog) Order(t *testing.T) []uint32 {
	t.Helper()
	room := l.read(t)
	return entry.LobbyOrder(room.Seed, room.Size)
}

// VerifyRoom requires that `seckill room verify` reports no violation, and returns its output.
func (s *Stack) VerifyRoom(t *testing.T, sale string) string {
	t.Helper()
	return s.Exits(t, 0, "room", "verify", "--voucher", sale)
}

// Sleep is [loop.Sleep].
func Sleep(ctx context.Context, d time.Duration) error { return loop.Sleep(ctx, d) }

// Refuses requires that a purchase with a pass is refused with a code.
func (p *Server) Refuses(t *testing.T, code, token, sale, pass string) {
	t.Helper()
	require.Equal(t, code, p.Do(t, Purchase(sale, token).Pass(pass)).Field("code"))
}

// Room publishes a sale with a waiting room.
func (p *Shop) Room(t *testing.T, o Offer, entry map[string]any) string {
	t.Helper()
	sale := p.Publish(t, o)
	if entry == nil {
		entry = map[string]any{}
	}

	entry["mode"] = "room"
	p.Change(t, sale, map[string]any{"entry": entry})

	return sale
}

// PassMode is the change of a sale that then needs passes, which are valid for an hour.
var PassMode = map[string]any{"entry": map[string]any{"mode": "pass", "pass_ttl": 3600}}

// HasCode reports whether an error is an answer with this code.
func HasCode(err error, code string) bool {
	var p *rush.Problem
	return errors.As(err, &p) && p.Code == code
}
