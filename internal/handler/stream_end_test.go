package handler_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
)

// runRooms runs the waiting rooms until the end of the test.
func (e *env) runRooms() {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.rooms.Run(ctx) })
	e.t.Cleanup(func() { stop(); running.Wait() })
}

// streamRig is a user with an order and a place in a waiting room, on two servers with one database.
type streamRig struct {
	t              *testing.T
	one, two       *env
	phone          string
	sale, room     voucherView
	order          orderView
	payment        paymentView
	ticket, userID string
}

// newStreamRig returns a rig whose user is an admin by the database.
func newStreamRig(t *testing.T) *streamRig {
	r := &streamRig{t: t, one: newEnv(t), phone: "13800000007"}
	r.two = newEnv(t, func(s *setup) { s.store = r.one.store })
	for _, e := range []*env{r.one, r.two} {
		e.runRooms()
	}
	r.one.login(r.phone)
	r.one.exec("UPDATE users SET role = 'admin' WHERE phone = ?", r.phone)
	c := r.one.login(r.phone)
	r.userID = c.login.User.ID
	r.sale = r.one.sale(5)
	r.room = r.one.sale(5, func(b map[string]any) { // rooms have the clock of the database
		b["begin_at"], b["end_at"] = time.Now().Add(5*time.Minute).Format(time.RFC3339), time.Now().Add(time.Hour).Format(time.RFC3339)
		b["entry"] = map[string]any{"mode": "room"}
	})
	p := c.pay(c.place(r.sale))
	r.order, r.payment = p.Order, p.Payment
	r.ticket = decode[struct{ Ticket string }](c.post(r.room.path()+"/entry", nil).want(http.StatusAccepted)).Ticket
	return r
}

// open opens the streams with a token and reads their first events.
func (r *streamRig) open(e *env, token string) map[string]*stream {
	r.t.Helper()
	streams := r.connect(e, token)
	for kind, s := range streams {
		first := s.next()
		require.NotNil(r.t, first, kind)
		require.Equal(r.t, kind, first.Kind)
	}
	return streams
}

// connect opens the streams of the order, the room and the sale with a token.
func (r *streamRig) connect(e *env, token string) map[string]*stream {
	r.t.Helper()
	c, streams := e.as(token), map[string]*stream{}
	for kind, path := range map[string]string{
		"order": r.order.path() + "/events", "entry": r.room.path() + "/entry/events", "stats": r.sale.adminPath() + "/events",
	} {
		s, res := c.with("X-Entry-Ticket", r.ticket).follow(r.t, path, "")
		require.Equal(r.t, http.StatusOK, res.StatusCode, kind)
		streams[kind] = s
	}
	return streams
}

// tokenFor returns an access token of a session of the user, which expires after ttl.
func (r *streamRig) tokenFor(session string, ttl time.Duration) string {
	r.t.Helper()
	tokens, err := auth.NewTokens(domain.NewKeyring(secret), r.one.clock.now)
	require.NoError(r.t, err)
	id, err := strconv.ParseInt(r.userID, 10, 64)
	require.NoError(r.t, err)
	token, err := tokens.Access(auth.Identity{UserID: id, SessionID: session, Role: domain.RoleAdmin}, ttl)
	require.NoError(r.t, err)
	return token
}

// shake gives all streams of a server a reason for an event. The order is paid by another session.
func (r *streamRig) shake(e *env) {
	r.t.Helper()
	r.one.notify(r.one.noticeOf(r.payment, r.order, "succeeded")).want(http.StatusOK)
	for range 3 {
		e.subscribers.NotifyAll()
		e.saleSubscribers.NotifyAll()
		time.Sleep(10 * time.Millisecond) // wake-ups are coalesced
	}
}

// wantSilence requires that a stream ends without an event from after the given time. Statistics are sent every second,
// so an event from before may not have been read yet.
func wantSilence(t *testing.T, kind string, s *stream, after time.Time) {
	t.Helper()
	for e := s.next(); e != nil; e = s.next() {
		require.Equal(t, "stats", kind, "%s after the end of the session: %s", e.Kind, e.Data)
		var stats struct{ At time.Time }
		require.NoError(t, json.Unmarshal(e.Data, &stats))
		require.False(t, stats.At.After(after), "statistics of %s after %s", stats.At, after)
	}
}

// TestStreamsEndWithTheirSession: nothing is sent after the end of the session is known to the server.
func TestStreamsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *streamRig, c client){
		"logout": func(_ *streamRig, c client) { c.post("/api/v1/auth/logout", nil).want(http.StatusNoContent) },
		"logout everywhere": func(r *streamRig, _ client) {
			r.one.login(r.phone).post("/api/v1/auth/logout-all", nil).want(http.StatusNoContent)
		},
		"stolen refresh token": func(r *streamRig, c client) {
			r.one.refresh(c.login.RefreshToken).want(http.StatusOK)
			r.one.refresh(c.login.RefreshToken).problem(http.StatusUnauthorized, "unauthenticated")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStreamRig(t)
			c := r.one.login(r.phone)
			here, there := r.open(r.one, c.token), r.open(r.two, c.token)
			other, _ := r.one.admin().follow(t, r.sale.adminPath()+"/events", "")
			require.NotNil(t, other.next())
			end(r, c)
			ended := time.Now()
			r.shake(r.one)
			for kind, s := range here {
				wantSilence(t, kind, s, ended)
			}
			require.NoError(t, r.two.revoked.Load(t.Context())) // as the poller does twice per second
			ended = time.Now()
			r.shake(r.two)
			for kind, s := range there {
				wantSilence(t, kind, s, ended)
			}
			require.NotNil(t, other.next(), "the stream of another user")
			require.Eventually(t, func() bool { return r.one.subscribers.Count()+r.two.subscribers.Count() == 0 }, time.Minute, time.Millisecond)
		})
	}
}

// TestStreamsEndWithTheirToken: the last event makes the client reconnect with a new token, and the stream resumes.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	session := auth.NewSessionID()
	for kind, s := range r.connect(r.one, r.tokenFor(session, time.Second)) {
		e := s.next()
		for e != nil && e.Kind == kind {
			e = s.next()
		}
		require.NotNil(t, e, kind)
		require.Equal(t, &event{Kind: "reauth", Data: []byte("{}")}, e)
		require.Nil(t, s.next(), kind)
	}
	fresh := r.one.as(r.tokenFor(session, time.Minute))
	resumed, _ := fresh.watch(t, r.order, "2000000000")
	r.shake(r.one)
	resumed.wantStatus("paid", "3000000000")
}

// TestEndedTokenOpensNoStream covers expired tokens and revoked sessions.
func TestEndedTokenOpensNoStream(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	c := r.one.login(r.phone)
	c.post("/api/v1/auth/logout", nil).want(http.StatusNoContent)
	expired := r.tokenFor(auth.NewSessionID(), time.Second)
	r.one.clock.advance(time.Second)
	for _, token := range []string{c.token, expired} {
		for _, path := range []string{r.order.path(), r.room.path() + "/entry", r.sale.adminPath()} {
			r.one.as(token).with("X-Entry-Ticket", r.ticket).get(path + "/events").want(http.StatusUnauthorized)
		}
	}
}

// TestSaleStreamEndsWithTheRole: an admin who is no longer one, or no longer exists, receives no further statistics.
func TestSaleStreamEndsWithTheRole(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"demoted": "UPDATE users SET role = 'buyer' WHERE id = ?",
		"deleted": "DELETE FROM users WHERE id = ?",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStreamRig(t)
			s := r.open(r.one, r.one.login(r.phone).token)["stats"]
			r.one.exec(statement, r.userID)
			r.one.clock.advance(time.Second) // the age up to which a role is used
			ended := time.Now()
			r.one.saleSubscribers.NotifyAll()
			wantSilence(t, "stats", s, ended)
		})
	}
}
