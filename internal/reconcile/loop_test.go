package reconcile

import (
	"context"
	"errors"
	"seckill/internal/service"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rounds drives the background loop without its clock.
type rounds struct {
	*world
	r       *Reconciler
	watches map[int64]*watch
}

func newRounds(t *testing.T) *rounds {
	w := newWorld(t)
	return &rounds{world: w, r: w.reconciler(), watches: map[int64]*watch{}}
}

func (l *rounds) round() Round {
	l.t.Helper()
	round, err := l.r.round(l.t.Context(), l.watches)
	require.NoError(l.t, err)
	require.True(l.t, round.OK)
	return round
}

// TestRunRepairsEachDamage in its second round, and counts it.
func TestRunRepairsEachDamage(t *testing.T) {
	for name, d := range gateDamage {
		t.Run(name, func(t *testing.T) {
			l := newRounds(t)
			d.damage(l.world)
			require.Empty(t, l.round().Findings)
			require.Zero(t, l.loads)
			round := l.round()
			require.Equal(t, map[Kind]int{d.kind: 1}, round.Repaired)
			require.Empty(t, round.Findings)
			require.Equal(t, 1, l.loads)
			l.round()
			require.Equal(t, 1, l.loads)
		})
	}
}

// TestRunGlances: between two looks numbers are compared, and whoever is quiet and differs is looked at.
func TestRunGlances(t *testing.T) {
	l := newRounds(t)
	l.view.Queue = nil
	l.build()
	l.round()
	looks := l.looks
	l.round()
	require.Equal(t, looks, l.looks, "all is well")

	for name, tc := range map[string]struct {
		seen   bool
		damage func()
	}{
		"units":             {true, func() { l.view.Level.Stock++ }},
		"units, in a rush":  {true, func() { l.view.Level.Stock++; l.busy = true }},
		"checksum":          {true, func() { l.view.Level.Sum++ }},
		"checksum, rush":    {false, func() { l.view.Level.Sum++; l.busy = true }},
		"both":              {true, func() { l.view.Level.Stock++; l.view.Level.Held-- }},
		"users":             {true, func() { l.view.Level.Users-- }},
		"too many users":    {true, func() { l.view.Level.Users++ }},
		"queued":            {true, func() { l.view.Level.Queued++ }},
		"queued, a backlog": {false, func() { l.view.Level.Queued++; l.view.Level.Backlog++; l.view.Level.Sum++ }},
		"broken":            {true, func() { l.view.Broken = true }},
		"cold":              {false, func() { l.view.Cold = true }},
	} {
		l.build()
		l.busy = false
		l.watches[worldVoucher].nextGlance = time.Time{}
		tc.damage()
		looks := l.looks
		l.round()
		require.Equal(t, tc.seen, l.looks > looks, name)
		l.watches[worldVoucher].doubts = nil
	}
}

// TestRunLooksOnceAMinute also where all numbers are right.
func TestRunLooksOnceAMinute(t *testing.T) {
	l := newRounds(t)
	l.round()
	l.view.Buyers[0], l.view.Buyers[1] = held(500, 9), held(501, 9)
	l.round()
	require.Equal(t, 1, l.looks)
	w := l.watches[worldVoucher]
	require.WithinDuration(t, time.Now().Add(lookEvery), w.nextLook, 10*time.Second)
	w.nextLook = time.Time{}
	l.round()
	require.Equal(t, map[Kind]int{KindPhantom: 1, KindBuyerMissing: 1}, l.round().Repaired)
}

// TestRunRests after a repair that did not help, and goes on telling.
func TestRunRests(t *testing.T) {
	l := newRounds(t)
	l.loadIsBad = true
	l.view.Level.Stock++
	for range 5 {
		l.round()
	}
	require.Equal(t, 1, l.loads)
	require.Equal(t, map[Kind]int{KindStockHigh: 1}, l.round().Findings)
	w := l.watches[worldVoucher]
	require.Equal(t, rebuildPause, w.rebuildPause)
	w.nextRebuild = time.Time{}
	l.round()
	require.Equal(t, 2, l.loads)
	require.Equal(t, 2*rebuildPause, w.rebuildPause)
	l.loadIsBad, w.nextRebuild = false, time.Time{}
	require.Equal(t, map[Kind]int{KindStockHigh: 1}, l.round().Repaired)
	require.Zero(t, w.rebuildPause)
}

// TestRunTellsOfTheBooks in every round, and forgets sales that nobody sells.
func TestRunTellsOfTheBooks(t *testing.T) {
	l := newRounds(t)
	l.facts.BadSlots = service.NewNamed([]service.Holder{held(103, 1103)})
	require.Equal(t, map[Kind]int{KindI2: 1}, l.round().Findings)
	require.Equal(t, map[Kind]int{KindI2: 1}, l.round().Findings, "it is there still, though nobody looked")
	l.sales = nil
	require.Empty(t, l.round().Findings)
	require.Empty(t, l.watches)
	for _, sales := range [][]int64{nil, {worldVoucher}} {
		l.sales, l.watches = sales, map[int64]*watch{}
		l.listFails, l.storeFails = sales == nil, errors.New("down")
		round, err := l.r.round(t.Context(), l.watches)
		require.Error(t, err)
		require.False(t, round.OK)
	}
}

// TestRunIsNotOKWhileBlind: after numbers that could not be read, no round succeeds until they are, although it is not
// time to read them yet.
func TestRunIsNotOKWhileBlind(t *testing.T) {
	l := newRounds(t)
	l.round()
	l.storeFails = errors.New("down")
	w := l.watches[worldVoucher]
	for range 3 {
		round, err := l.r.round(t.Context(), l.watches)
		require.Error(t, err)
		require.False(t, round.OK)
		w.nextGlance = time.Now().Add(time.Hour)
	}
	l.storeFails, w.nextGlance = nil, time.Time{}
	l.round()
}

// TestRun goes on until its context ends.
func TestRun(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	rounds := 0
	r := w.reconciler(func(c *Config) {
		c.Every = time.Millisecond
		c.Observe = func(round Round) {
			require.Equal(t, testNow, round.At)
			w.storeFails = errors.New("down") // of what comes next
			if rounds++; rounds == 3 {
				require.False(t, round.OK)
				cancel()
			}
		}
	})
	r.Run(ctx)
	require.Equal(t, 3, rounds)
}
