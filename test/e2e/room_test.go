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

// TestRoomTickets: concurrent requests of an account on two servers get one place. Forged, borrowed, lost and expired
// tickets and passes are refused on both, and `seckill room verify` agrees with the positions that buyers see.
func TestRoomTickets(t *testing.T) {
	t.Parallel()
	s := rig.RealStack(t)
	a, b := s.Serve(t), s.Serve(t)
	servers, tokens := []*rig.Server{a, b}, s.Tokens(t, 12)
	sale, other := a.RoomSale(t, 100, 20, 10, time.Hour), a.RoomSale(t, 100, 1, 10, time.Hour)
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
	buy := func(p *rig.Server, w *rig.Waiter, pass string) rig.Answer {
		t.Helper()
		return p.Do(t, rig.Purchase(sale, w.Token).Pass(pass).With("Prefer", "wait=3"))
	}
	rig.RequireProblem(t, http.StatusForbidden, "entry_required", buy(b, all[0], ""))
	rig.RequireProblem(t, http.StatusForbidden, "entry_required", buy(b, all[0], all[0].Ticket))
	rig.RequireProblem(t, http.StatusForbidden, "entry_required", buy(b, all[1], all[0].Pass()))
	rig.Eventually(t, "the pass expires on both servers", func() bool { // whose clocks may differ by a reply of the database
		return a.MustEntry(t, http.MethodGet, all[0].Token, sale, all[0].Ticket).Code == "entry_required" &&
			b.MustEntry(t, http.MethodGet, all[0].Token, sale, all[0].Ticket).Code == "entry_required"
	})
	rig.RequireProblem(t, http.StatusForbidden, "entry_required", buy(a, all[0], all[0].Pass()))
	rig.RequireProblem(t, http.StatusForbidden, "entry_required", buy(b, all[0], all[0].Pass()))
	refused(http.MethodGet, all[0].Token, sale, all[0].Ticket)
	require.Equal(t, uint32(13), b.MustEntry(t, http.MethodPost, all[0].Token, sale, "").Lobby.Number, "a place at the end")

	out := s.VerifyRoom(t, sale)
	require.Regexp(t, `places +14\n`, out)
	s.RequirePositions(t, sale, out)
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
