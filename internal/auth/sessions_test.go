package auth

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

type sessionTable struct {
	Store // nil: the other methods are not called

	ends  time.Time
	role  domain.Role
	reads int
	err   error // of each read, if not nil
}

func (s *sessionTable) SessionUser(context.Context, string) (domain.User, time.Time, error) {
	s.reads++
	time.Sleep(time.Millisecond) // so that concurrent reads meet
	return domain.User{ID: 7, Role: s.role}, s.ends, s.err
}

func newPageRig(t *testing.T) (*sessionTable, *Service, string) {
	table := &sessionTable{ends: time.Now().Add(PageSessionTTL), role: domain.RoleBuyer}
	tokens := env.Must(NewTokens(testSecret, time.Now))(t)
	a := New(Config{
		Store: table, Tokens: tokens, Revoked: NewRevocations(nil, time.Now), Now: time.Now,
	})
	return table, a, tokens.pageToken(NewSessionID())
}

// Most requests need no query, and a role is as old as that of an access token at most.
func TestPageSessionIsReadAgainAfterAccessTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		for range 100 {
			id := env.Must(a.AuthenticatePage(t.Context(), token))(t)
			require.Equal(t, domain.RoleBuyer, id.Role)
		}
		require.Equal(t, 1, table.reads)

		table.role = domain.RoleViewer
		time.Sleep(AccessTTL)
		id := env.Must(a.AuthenticatePage(t.Context(), token))(t)
		require.Equal(t, domain.RoleViewer, id.Role)
		require.Equal(t, 2, table.reads)
	})
}

func TestConcurrentUsesOfPageSessionShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				env.Must(a.AuthenticatePage(t.Context(), token))(t)
			})
		}
		all.Wait()
		require.Equal(t, 1, table.reads)
	})
}

// While the store is unavailable, only sessions that were read before are valid, and it is asked once a minute.
func TestPageSessionWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		use := func() error {
			_, err := a.AuthenticatePage(t.Context(), token)
			return err
		}
		table.err = domain.ErrUnavailable
		require.ErrorIs(t, use(), domain.ErrUnavailable)

		table.err = nil
		require.NoError(t, use())
		table.err = domain.ErrUnavailable
		table.reads = 0
		time.Sleep(AccessTTL)
		for range 3 {
			require.NoError(t, use())
			require.NoError(t, use())
			time.Sleep(pageSessionRetry)
		}
		require.Equal(t, 3, table.reads)

		time.Sleep(PageSessionTTL)
		require.ErrorIs(t, use(), domain.ErrUnauthenticated, "it has ended")
	})
}

// A revoked session, one that the store refuses, and a forged token cost no further reads.
func TestInvalidPageSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		refused := func(token string, reads int) {
			t.Helper()
			table.reads = 0
			for range 10 {
				env.Fails(a.AuthenticatePage(t.Context(), token))(t, domain.ErrUnauthenticated)
			}
			require.Equal(t, reads, table.reads)
		}
		refused(NewSessionID()+token[32:], 0)

		id := env.Must(a.AuthenticatePage(t.Context(), token))(t)
		a.cfg.Revoked.Add(time.Now().Add(time.Hour), id.SessionID) // as the poll does
		refused(token, 0)

		table.err = domain.ErrUnauthenticated
		refused(a.cfg.Tokens.pageToken(NewSessionID()), 1)
	})
}

// revocationRows is a RevocationStore that records the sequence numbers it is queried from.
type revocationRows struct {
	rows []Revocation
	from []int64
}

func (r *revocationRows) RevocationsAfter(_ context.Context, seq int64, _ time.Time) ([]Revocation, error) {
	r.from = append(r.from, seq)
	var out []Revocation
	for _, row := range r.rows {
		if row.Seq > seq {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b Revocation) int { return cmp.Compare(a.Seq, b.Seq) })
	return out, nil
}
func (r *revocationRows) PurgeSessions(context.Context, time.Time) (int, error) { return 0, nil }

// A sequence number is assigned before its transaction commits, so a smaller one can appear after a larger one.
func TestPollFindsLateCommits(t *testing.T) {
	clock := testNow
	rows := &revocationRows{rows: []Revocation{{Seq: 2, SessionID: "b", KeepUntil: testNow.Add(time.Hour)}}}
	r := NewRevocations(rows, func() time.Time { return clock })
	require.NoError(t, r.Load(t.Context()))
	require.True(t, r.Has("b"))
	clock = clock.Add(revocationOverlap - time.Second)
	rows.rows = append(rows.rows, Revocation{Seq: 1, SessionID: "a", KeepUntil: testNow.Add(time.Hour)})
	require.NoError(t, r.Load(t.Context()))
	require.True(t, r.Has("a"))

	for range 4 { // after the overlap, old rows are not read again
		clock = clock.Add(revocationOverlap)
		require.NoError(t, r.Load(t.Context()))
	}
	require.Equal(t, int64(1), rows.from[len(rows.from)-1], "it begins at the last row")

	require.False(t, r.Has("c"))
	r.Add(testNow, "c")
	require.True(t, r.Has("c"))
	clock = testNow.Add(2 * time.Hour)
	require.NoError(t, r.purge(t.Context()))
	require.False(t, r.Has("a"))
	require.False(t, r.Has("c"))
}

// A watcher is called once, before Add returns or in the poll that finds the end of its session.
func TestWatchEndOfSession(t *testing.T) {
	rows := &revocationRows{}
	r := NewRevocations(rows, func() time.Time { return testNow })
	calls := map[string]int{}
	watch := func(session, name string) (stop func()) {
		stop, err := r.watch(session, func() { calls[name]++ })
		require.NoError(t, err)
		return stop
	}
	watch("a", "a1")
	watch("a", "a2")
	watch("b", "b")
	watch("c", "c")
	watch("b", "stopped")()
	r.Add(testNow.Add(time.Hour), "a")
	require.Equal(t, map[string]int{"a1": 1, "a2": 1}, calls)
	for i, session := range []string{"a", "b"} {
		rows.rows = append(rows.rows, Revocation{Seq: int64(i + 1), SessionID: session, KeepUntil: testNow.Add(time.Hour)})
	}
	for range 2 {
		require.NoError(t, r.Load(t.Context()))
	}
	require.Equal(t, map[string]int{"a1": 1, "a2": 1, "b": 1}, calls)
	_, err := r.watch("a", func() {})
	require.ErrorIs(t, err, domain.ErrUnauthenticated)
	watch("c", "c2")()
	require.Len(t, r.watchers, 1)
}
