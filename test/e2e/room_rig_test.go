package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/entry"
	"seckill/internal/repo"
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
		Number, Size uint32
		Seed         string
	} `json:"lobby"`
	Code string `json:"code"`
}

// entryClient keeps its connections, because the buyers of a room send many requests.
var entryClient = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: time.Second}}

// entry sends a request to the entry of a sale.
func (p *server) entry(ctx context.Context, method, token, sale, ticket string) (a entryAnswer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, p.url+"/api/v1/vouchers/"+sale+"/entry", http.NoBody)
	if err != nil {
		return a, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if ticket != "" {
		req.Header.Set("X-Entry-Ticket", ticket)
	}
	res, err := entryClient.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		err = json.NewDecoder(res.Body).Decode(&a)
	}
	return a, err
}

// mustEntry is entry for requests that have to be answered. It repeats a request that is answered 503.
func (p *server) mustEntry(t *testing.T, method, token, sale, ticket string) (a entryAnswer) {
	t.Helper()
	a, err := p.tryEntry(t.Context(), method, token, sale, ticket)
	require.NoError(t, err)
	return a
}

// tryEntry is mustEntry for goroutines. It returns the last answer or error of a minute.
func (p *server) tryEntry(ctx context.Context, method, token, sale, ticket string) (a entryAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		a, err = p.entry(ctx, method, token, sale, ticket)
		if err != nil || !a.busy() || sleep(ctx, 20*time.Millisecond) != nil {
			return a, err
		}
	}
}

// busy reports whether the answer is 503.
func (a entryAnswer) busy() bool { return a.Code == "unavailable" || a.Code == "overloaded" }

// roomSale publishes a sale with a waiting room that begins after a time. Its lobby is open.
func (p *server) roomSale(t *testing.T, stock, rate, passTTL int, after time.Duration) (sale string) {
	t.Helper()
	now := time.Now()
	return p.must(t, http.MethodPost, "/admin/vouchers", p.admin(t), map[string]any{
		"shop_id": "1", "title": t.Name(), "pay_value": 100, "actual_value": 200, "stock": stock,
		"begin_at": now.Add(after), "end_at": now.Add(2 * time.Hour),
		"entry": map[string]any{"mode": "room", "rate": rate, "pass_ttl": passTTL, "opens_at": now.Add(-time.Minute)},
	})["id"].(string)
}

// beginSale begins a sale now. A test whose buyers enter the lobby first depends on no speed.
func (p *server) beginSale(t *testing.T, sale string) {
	t.Helper()
	p.must(t, http.MethodPatch, "/admin/vouchers/"+sale, p.admin(t), map[string]any{"begin_at": time.Now().UTC()})
}

// changeRoom changes the waiting room of a sale.
func (p *server) changeRoom(t *testing.T, admin, sale string, change map[string]any) {
	t.Helper()
	p.must(t, http.MethodPost, "/admin/vouchers/"+sale+"/room", admin, change)
}

// waiter is a buyer of a room.
type waiter struct {
	p                   *server
	token, sale, ticket string
	number              uint32
	passes              map[time.Time]string // by expiry
	begun               <-chan struct{}      // closed when the sale begins; wait then polls soon
}

// enter gives each token a place in a room, on the servers in turn.
func enter(t *testing.T, sale string, tokens []string, servers ...*server) []*waiter {
	t.Helper()
	all := make([]*waiter, len(tokens))
	concurrently(len(tokens), func(i int) {
		w := &waiter{p: servers[i%len(servers)], token: tokens[i], sale: sale, passes: map[time.Time]string{}}
		for try := 0; try < 100 && w.ticket == ""; try++ {
			a, err := w.p.tryEntry(t.Context(), http.MethodPost, w.token, sale, "")
			if err != nil || a.busy() {
				break
			}
			w.note(a)
		}
		all[i] = w
	})
	for _, w := range all {
		require.NotEmpty(t, w.ticket)
	}
	return all
}

// note remembers what an answer says.
func (w *waiter) note(a entryAnswer) {
	if a.Ticket != "" {
		w.ticket, w.number = a.Ticket, a.Lobby.Number
	}
	if a.Pass != "" {
		w.passes[a.ExpiresAt] = a.Pass
	}
}

// poll asks once.
func (w *waiter) poll(ctx context.Context) (entryAnswer, error) {
	a, err := w.p.entry(ctx, http.MethodGet, w.token, w.sale, w.ticket)
	w.note(a)
	return a, err
}

// wait polls as the server says until the buyer has a pass or the answer is final. A buyer whose server does not answer
// asks another one.
func (w *waiter) wait(ctx context.Context, others ...*server) entryAnswer {
	for {
		a, err := w.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return a
		case err != nil && len(others) > 0:
			w.p, others = others[0], others[1:]
			continue
		case a.Pass != "" || a.Code != "" && !a.busy():
			return a
		}
		select {
		case <-ctx.Done():
		case <-w.begun:
			if a.State != "lobby" { // the server of the buyer has learned of it
				w.begun = nil
			}
			_ = sleep(ctx, 200*time.Millisecond)
		case <-time.After(max(time.Duration(a.Poll)*time.Millisecond, 50*time.Millisecond)):
		}
	}
}

// pass returns the only pass of the buyer.
func (w *waiter) pass() string {
	for _, pass := range w.passes {
		return pass
	}
	return ""
}

// watch follows the event stream of the place and returns the code of its end.
func (w *waiter) watch(ctx context.Context) (code string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.p.url+"/api/v1/vouchers/"+w.sale+"/entry/events", http.NoBody)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	req.Header.Set("X-Entry-Ticket", w.ticket)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	end := false
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "event: end":
			end = true
		case end && isData:
			var a entryAnswer
			err := json.Unmarshal([]byte(data), &a)
			return a.Code, err
		}
	}
	return "", errors.Join(fmt.Errorf("the stream ended: %s", res.Status), lines.Err())
}

// concurrently calls fn for the numbers below n, at most 256 at a time.
func concurrently(n int, fn func(i int)) {
	semaphore, done := make(chan struct{}, 256), make(chan struct{})
	for i := range n {
		go func() {
			semaphore <- struct{}{}
			fn(i)
			<-semaphore
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
}

// roomLog is the log of a room in the database.
type roomLog struct {
	store *repo.Store
	id    int64
}

func (s *stack) roomLog(t *testing.T, sale string) *roomLog {
	t.Helper()
	store, err := app.OpenStore(app.Config{MySQLDSN: s.setting("SECKILL_MYSQL_DSN"), DataDir: s.setting("SECKILL_DATA_DIR")})
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
	eventually(t, "the database answers", func() bool {
		rooms, _, err = l.store.Rooms(t.Context(), map[int64]domain.RoomCursor{l.id: {}})
		return !errors.Is(err, domain.ErrUnavailable)
	})
	require.NoError(t, err)
	require.Len(t, rooms, 1)
	return rooms[0]
}

// admissions returns the admissions of the room so far. There are fewer than the 500 events of one read.
func (l *roomLog) admissions(t *testing.T) (events []domain.RoomEvent) {
	t.Helper()
	for _, e := range l.read(t).Events {
		if e.Kind == domain.RoomAdmitted {
			events = append(events, e)
		}
	}
	return events
}

// admitted returns the numbers that were admitted, in order.
func (l *roomLog) admitted(t *testing.T) (numbers []uint32) {
	t.Helper()
	for _, e := range l.admissions(t) {
		numbers = append(numbers, e.Numbers...)
	}
	return numbers
}

// order returns the order of the lobby.
func (l *roomLog) order(t *testing.T) []uint32 {
	t.Helper()
	room := l.read(t)
	return entry.LobbyOrder(room.Seed, room.Size)
}

// verifyRoom requires that `seckill room verify` reports no violation, and returns its output.
func (s *stack) verifyRoom(t *testing.T, sale string) string {
	t.Helper()
	code, out := s.check(t, "room", "verify", "--voucher", sale)
	require.Zero(t, code, out)
	return out
}
