package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRoomTickets: concurrent requests of an account on two servers get one place. Forged, borrowed, lost and expired
// tickets and passes are refused on both, and `seckill room verify` agrees with the positions that buyers see.
func TestRoomTickets(t *testing.T) {
	t.Parallel()
	s := realStack(t)
	a, b := s.serve(t), s.serve(t)
	servers, tokens := []*server{a, b}, s.tokens(t, 12)
	sale, other := a.roomSale(t, 100, 20, 10, time.Hour), a.roomSale(t, 100, 1, 10, time.Hour)
	var mu sync.Mutex
	places := map[uint32]string{}
	concurrently(20*len(tokens), func(i int) {
		place, err := servers[i%2].tryEntry(t.Context(), http.MethodPost, tokens[i/20], sale, "")
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
		require.Equal(t, w.token, places[w.number])
	}

	refused := func(method, token, sale, ticket string) {
		t.Helper()
		for _, p := range servers {
			require.Equal(t, "entry_required", p.mustEntry(t, method, token, sale, ticket).Code)
		}
	}
	forged := "B" + all[0].ticket[1:]
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		refused(method, all[0].token, sale, all[1].ticket)
		refused(method, all[0].token, other, all[0].ticket)
		refused(method, all[0].token, sale, forged)
		refused(method, all[0].token, sale, "")
	}
	left := all[11]
	require.Empty(t, b.mustEntry(t, http.MethodDelete, left.token, sale, left.ticket).Code)
	eventually(t, "the place is lost on both servers", func() bool {
		return a.mustEntry(t, http.MethodGet, left.token, sale, left.ticket).Code == "entry_required" &&
			b.mustEntry(t, http.MethodGet, left.token, sale, left.ticket).Code == "entry_required"
	})
	again := a.mustEntry(t, http.MethodPost, left.token, sale, "")
	require.Equal(t, uint32(12), again.Lobby.Number, "a new place is at the end")
	refused(http.MethodGet, left.token, sale, left.ticket)

	a.beginSale(t, sale)
	eventually(t, "the first buyer is admitted", func() bool {
		place, err := all[0].poll(t.Context())
		require.NoError(t, err)
		return place.Pass != ""
	})
	buy := func(p *server, w *waiter, pass string) answer {
		t.Helper()
		return p.answered(t, http.MethodPost, ordersOf(sale), w.token, "X-Entry-Pass", pass, "Prefer", "wait=3")
	}
	requireProblem(t, http.StatusForbidden, "entry_required", buy(b, all[0], ""))
	requireProblem(t, http.StatusForbidden, "entry_required", buy(b, all[0], all[0].ticket))
	requireProblem(t, http.StatusForbidden, "entry_required", buy(b, all[1], all[0].pass()))
	eventually(t, "the pass expires on both servers", func() bool { // whose clocks may differ by a reply of the database
		return a.mustEntry(t, http.MethodGet, all[0].token, sale, all[0].ticket).Code == "entry_required" &&
			b.mustEntry(t, http.MethodGet, all[0].token, sale, all[0].ticket).Code == "entry_required"
	})
	requireProblem(t, http.StatusForbidden, "entry_required", buy(a, all[0], all[0].pass()))
	requireProblem(t, http.StatusForbidden, "entry_required", buy(b, all[0], all[0].pass()))
	refused(http.MethodGet, all[0].token, sale, all[0].ticket)
	require.Equal(t, uint32(13), b.mustEntry(t, http.MethodPost, all[0].token, sale, "").Lobby.Number, "a place at the end")

	out := s.verifyRoom(t, sale)
	require.Regexp(t, `places +14\n`, out)
	s.requirePositions(t, sale, out)
	s.query(t, func(db *sql.DB) {
		_, err := db.ExecContext(t.Context(), "INSERT INTO room_log (voucher_id, seq, kind, at, data) VALUES ("+sale+
			", 900, 1, '2026-11-11 12:00:00', x'00')")
		require.NoError(t, err)
	})
	code, out := s.check(t, "room", "verify", "--voucher", sale)
	require.Equal(t, exitViolation, code, out)
	require.Contains(t, out, "is missing")
	code, out = s.run(t, "room", "verify", "--voucher", "999")
	require.Equal(t, exitUnchecked, code, out)
}

// requirePositions computes the position of each number of the lobby with the command, from the seed and the size that
// the room has in the database.
func (s *stack) requirePositions(t *testing.T, sale, out string) {
	t.Helper()
	var seed string
	var size int
	_, err := fmt.Sscanf(out, "seed %s\nsize %d\n", &seed, &size)
	require.NoError(t, err, out)
	for position, number := range s.roomLog(t, sale).order(t)[:2] {
		code, out := s.run(t, "room", "verify", "--seed", seed, "--size", fmt.Sprint(size), "--number", fmt.Sprint(number))
		require.Zero(t, code, out)
		require.Equal(t, fmt.Sprintf("position %d of %d\n", position+1, size), out)
	}
	code, out := s.run(t, "room", "verify", "--seed", strings.Repeat("0", 63), "--size", "9", "--number", "1")
	require.Equal(t, exitUnchecked, code, out)
}
