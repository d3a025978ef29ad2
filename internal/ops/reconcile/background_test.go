package reconcile

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// rounds runs rounds of the background loop without its ticker.
type rounds struct {
	*fakeSale
	r      *Reconciler
	states map[int64]*voucherState
}

func newRounds(t *testing.T) *rounds {
	w := newFakeSale(t)
	return &rounds{fakeSale: w, r: w.reconciler(), states: map[int64]*voucherState{}}
}

func (l *rounds) round() Round {
	l.t.Helper()
	round := env.Must(l.r.round(l.t.Context(), l.states))(l.t)
	require.True(l.t, round.OK)
	return round
}

// Between two snapshots only counters are compared. A difference that orders in progress may explain is ignored.
func TestCounterDifferenceTriggersSnapshot(t *testing.T) {
	l := newRounds(t)
	l.view.Queue = nil
	l.build()
	l.round()
	snapshots := l.snapshots
	l.round()
	require.Equal(t, snapshots, l.snapshots, "a snapshot although the counters agree")

	for name, tc := range map[string]struct {
		taken  bool
		damage func()
	}{
		"units":             {true, func() { l.view.Level.Stock++ }},
		"units, in a rush":  {true, func() { l.view.Level.Stock++; l.busy = true }},
		"checksum":          {true, func() { l.view.Level.Sum++ }},
		"checksum, rush":    {false, func() { l.view.Level.Sum++; l.busy = true }},
		"both":              {true, func() { l.view.Level.Stock++; l.view.Level.Held-- }},
		"queued":            {true, func() { l.view.Level.Queued++ }},
		"queued, a backlog": {false, func() { l.view.Level.Queued++; l.view.Level.Backlog++; l.view.Level.Sum++ }},
		"broken":            {true, func() { l.view.Broken = true }},
		"cold":              {false, func() { l.view.Cold = true }},
	} {
		l.build()
		l.busy = false
		l.states[testVoucher].nextPoll = time.Time{}
		tc.damage()
		snapshots := l.snapshots
		l.round()
		require.Equal(t, tc.taken, l.snapshots > snapshots, name)
		l.states[testVoucher].suspect = nil
	}
}

// TestSnapshotOnceAMinute finds wrong orders in a gate whose counters are right. The second snapshot in a row repairs them.
func TestSnapshotOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRounds(t)
		l.round()
		l.view.Buyers[0], l.view.Buyers[1] = held(500, 9), held(501, 9)
		time.Sleep(snapshotInterval - time.Second)
		l.round()
		require.Equal(t, 1, l.snapshots)
		time.Sleep(time.Second)
		require.Empty(t, l.round().Findings)
		require.Zero(t, l.loads, "repaired after one snapshot")
		round := l.round()
		require.Equal(t, map[Kind]int{KindGateDiffers: 1}, round.Repaired)
		require.Empty(t, round.Findings)
		l.round()
		require.Equal(t, 1, l.loads)

		// Those of a large sale take at most a hundredth of the time.
		l.before = func(int) { time.Sleep(3 * time.Second) }
		time.Sleep(snapshotInterval)
		l.round()
		snapshots := l.snapshots
		time.Sleep(5*time.Minute - time.Second)
		l.round()
		require.Equal(t, snapshots, l.snapshots)
		time.Sleep(time.Second)
		l.round()
		require.Equal(t, snapshots+1, l.snapshots)
	})
}

// They run once a minute, or less often if they take long. The finding is still reported in every round.
func TestRebuildsWithoutEffectAreRare(t *testing.T) {
	for name, tc := range map[string]struct {
		fail  func(w *fakeSale)
		pause time.Duration
	}{
		"no effect": {func(w *fakeSale) { w.loadHasNoEffect = true }, rebuildPause},
		"an error":  {func(w *fakeSale) { w.loadTime, w.loadErr = 10*time.Second, domain.ErrUnavailable }, 10 * time.Second * pollTimeFactor},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newRounds(t)
			tc.fail(l.fakeSale)
			l.view.Level.Stock++
			for loads := 1; loads <= 2; loads++ {
				var err error
				for l.loads < loads {
					_, err = l.r.round(t.Context(), l.states)
				}
				require.ErrorIs(t, err, l.loadErr, name)
				time.Sleep(tc.pause - time.Second)
				require.Equal(t, map[Kind]int{KindGateDiffers: 1}, l.round().Findings, name)
				require.Equal(t, loads, l.loads, name)
				time.Sleep(time.Second)
			}
			l.loadHasNoEffect, l.loadErr, l.loadTime = false, nil, 0
			require.Equal(t, map[Kind]int{KindGateDiffers: 1}, l.round().Repaired, name)

			l.view.Level.Stock++
			l.round()
			require.Equal(t, map[Kind]int{KindGateDiffers: 1}, l.round().Repaired, "%s: another difference is repaired at once", name)
		})
	}
}

// A unit that the gate lacks can be bought within a minute (I5), although Redis or the database fails for a moment.
func TestFailedRebuildIsRepeatedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRounds(t)
		l.view.Level.Stock--
		l.loadErr = domain.ErrUnavailable
		start := time.Now()
		for l.loads < 2 {
			_, err := l.r.round(t.Context(), l.states)
			if l.loads == 1 && err != nil {
				l.loadErr = nil
			}
			time.Sleep(5 * time.Second)
		}
		require.Less(t, time.Since(start), time.Minute)
	})
}

// TestInvariantFindingsAreReportedInEveryRound, until the invariant holds, even if the sale is over. Violations has them
// too, and each is logged once.
func TestInvariantFindingsAreReportedInEveryRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRounds(t)
		var log bytes.Buffer
		l.r.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		round := func() map[Kind]int {
			r := l.round()
			l.r.publish(r, l.states)
			_, checkedAt := l.r.Violations()
			require.Equal(t, r.At, checkedAt)
			return r.Findings
		}
		l.facts.BadSlots = domain.NewNamed([]domain.Holder{held(103, 1103)})
		require.Equal(t, map[Kind]int{KindI2: 1}, round())
		require.Equal(t, map[Kind]int{KindI2: 1}, round(), "a round without a snapshot")
		l.sales = nil
		require.Equal(t, map[Kind]int{KindI2: 1}, round())
		found, _ := l.r.Violations()
		require.Equal(t, KindI2, env.Only(t, found).Invariant)
		require.Equal(t, 1, strings.Count(log.String(), "an invariant is violated"), log.String())

		l.facts.BadSlots = domain.Named{}
		time.Sleep(snapshotInterval)
		require.Empty(t, round())
		found, _ = l.r.Violations()
		require.Empty(t, found)
		require.Empty(t, round())
		require.Empty(t, l.states)
	})
}

// TestRoundFailsUntilNextSuccessfulRead, even if no read is due.
func TestRoundFailsUntilNextSuccessfulRead(t *testing.T) {
	l := newRounds(t)
	l.round()
	l.storeErr = errors.New("down")
	w := l.states[testVoucher]
	for range 3 {
		round, err := l.r.round(t.Context(), l.states)
		require.Error(t, err)
		require.False(t, round.OK)
		w.nextPoll = time.Now().Add(time.Hour)
	}
	l.storeErr, w.nextPoll = nil, time.Time{}
	l.round()
}

// A round that failed is observed, and one that the end of the program interrupts is not. Package loop runs the others.
func TestRoundsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeSale(t)
		var ok []bool
		r := w.reconciler(func(c *Config) {
			c.Observe = func(round Round) {
				require.Equal(t, testNow, round.At)
				ok = append(ok, round.OK)
			}
		})
		task := r.Task()
		require.Equal(t, r.Every(), task.Every)
		require.NoError(t, task.Run(t.Context()))
		w.storeErr = errors.New("down")
		require.ErrorIs(t, task.Run(t.Context()), w.storeErr)
		_ = task.Run(env.Cancelled(t.Context()))
		require.Equal(t, []bool{true, false}, ok)
	})
}
