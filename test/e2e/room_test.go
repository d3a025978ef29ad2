package e2e

import (
	"database/sql"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// TestRoomTickets: concurrent requests of an account on two servers get one place. Forged, borrowed and lost tickets and passes
// are refused on both, and `seckill room verify` finds what is missing in the log.
func TestRoomTickets(t *testing.T) {
	t.Parallel()
	s := rig.RealStack(t)
	a, b := s.Serve(t), s.Serve(t)
	servers, tokens := []*rig.Server{a, b}, s.Tokens(t, 12)
	sale, other := a.RoomSale(t, 100, 20, 60, time.Hour), a.RoomSale(t, 100, 1, 60, time.Hour)
	var mu sync.Mutex
	places := map[uint32]string{}
	concurrently(20*len(tokens), func(i int) {
		place, err := servers[i%2].TryEntry(t.Context(), http.MethodPost, tokens[i/20], sale, "")
		mu.Lock()
		defer mu.Unlock()
		if err != nil || place.Code != "" {
			t.Errorf("%v %v", err, place.Code)
			return
		}
		if had := places[place.Lobby.Number]; had != "" && had != tokens[i/20] {
			t.Errorf("two accounts have the number %d", place.Lobby.Number)
		}
		places[place.Lobby.Number] = tokens[i/20]
	})
	require.Len(t, places, len(tokens), "an account has one place")
	all := enter(t, sale, tokens, a, b)
	for _, w := range all {
		require.Equal(t, w.Token, places[w.Number])
	}

	refused := func(method, token, sale, ticket string) {
		t.Helper()
		for _, p := range servers {
			require.Equal(t, "entry_required", p.MustEntry(t, method, token, sale, ticket).Code)
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
	require.Empty(t, b.MustEntry(t, http.MethodDelete, left.Token, sale, left.Ticket).Code)
	rig.Eventually(t, "the place is lost on both servers", func() bool {
		return a.MustEntry(t, http.MethodGet, left.Token, sale, left.Ticket).Code == "entry_required" &&
			b.MustEntry(t, http.MethodGet, left.Token, sale, left.Ticket).Code == "entry_required"
	})
	again := a.MustEntry(t, http.MethodPost, left.Token, sale, "")
	require.Equal(t, uint32(12), again.Lobby.Number, "a new place is at the end")
	refused(http.MethodGet, left.Token, sale, left.Ticket)

	a.BeginSale(t, sale)
	rig.Eventually(t, "the first buyer is admitted", func() bool {
		place, err := all[0].Poll(t.Context())
		require.NoError(t, err)
		return place.Pass != ""
	})
	b.Refuses(t, "entry_required", all[0].Token, sale, "")
	b.Refuses(t, "entry_required", all[0].Token, sale, all[0].Ticket)
	b.Refuses(t, "entry_required", all[1].Token, sale, all[0].Pass())

	out := s.VerifyRoom(t, sale)
	require.Regexp(t, `places +13\n`, out)
	s.Query(t, func(db *sql.DB) {
		_, err := db.ExecContext(t.Context(), "INSERT INTO room_log (voucher_id, seq, kind, at, data) VALUES ("+sale+
			", 900, 1, '2026-11-11 12:00:00', x'00')")
		require.NoError(t, err)
	})
	code, out := s.Check(t, "room", "verify", "--voucher", sale)
	require.Equal(t, rig.ExitViolation, code, out)
	require.Contains(t, out, "is missing")
	code, out = s.Run(t, "room", "verify", "--voucher", "999")
	require.Equal(t, rig.ExitUnchecked, code, out)
}

// enter gives each token a place in a room, on the servers in turn.
func enter(t *testing.T, sale string, tokens []string, servers ...*rig.Server) []*rig.Waiter {
	t.Helper()
	all := make([]*rig.Waiter, len(tokens))
	concurrently(len(tokens), func(i int) {
		w := &rig.Waiter{P: servers[i%len(servers)], Token: tokens[i], Sale: sale, Passes: map[time.Time]string{}}
		for try := 0; try < 100 && w.Ticket == ""; try++ {
			a, err := w.P.TryEntry(t.Context(), http.MethodPost, w.Token, sale, "")
			if err != nil || a.Busy() {
				break
			}
			w.Note(a)
		}
		all[i] = w
	})
	for _, w := range all {
		require.NotEmpty(t, w.Ticket)
	}
	return all
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
