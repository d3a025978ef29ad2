package auth

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

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
	r := NewRevocations(rows, func() time.Time { return clock }, nil)
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
	r.Add("c", testNow)
	require.True(t, r.Has("c"))
	clock = testNow.Add(2 * time.Hour)
	require.NoError(t, r.purge(t.Context()))
	require.False(t, r.Has("a"))
	require.False(t, r.Has("c"))
}

// A watcher is called once, before Add returns or in the poll that finds the end of its session.
func TestWatchEndOfSession(t *testing.T) {
	rows := &revocationRows{}
	r := NewRevocations(rows, func() time.Time { return testNow }, nil)
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
	r.Add("a", testNow.Add(time.Hour))
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
