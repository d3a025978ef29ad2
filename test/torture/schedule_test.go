package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func faultsOf(seed uint64, n int) (faults []Fault) {
	next := schedule(seed, kindsOf(Config{}))
	for range n {
		f, _ := next()
		faults = append(faults, f)
	}
	return faults
}

func TestSeedRepeatsFaultsAndFates(t *testing.T) {
	t.Parallel()
	first := faultsOf(7, 100)
	require.Equal(t, first, faultsOf(7, 100))
	require.NotEqual(t, first, faultsOf(8, 100))
	a, b := newFates(7), newFates(7)
	seen := map[fate]bool{}
	for range 200 {
		f := a.next()
		require.Equal(t, f, b.next())
		seen[f] = true
	}
	require.Len(t, seen, 6)
}

func TestEveryKindOccursInEachRound(t *testing.T) {
	t.Parallel()
	kinds := kindsOf(Config{})
	faults := faultsOf(1, 3*len(kinds))
	for round := range 3 {
		seen := map[string]bool{}
		for _, f := range faults[round*len(kinds) : (round+1)*len(kinds)] {
			seen[f.Kind] = true
			for _, k := range kinds {
				if k.name == f.Kind {
					require.GreaterOrEqual(t, f.Hold, k.min)
					require.LessOrEqual(t, f.Hold, k.max)
				}
			}
		}
		require.Len(t, seen, len(kinds))
	}
}

func TestReportOfViolations(t *testing.T) {
	t.Parallel()
	c := &campaign{cfg: Config{Lane: "batch"}, system: &system{}, ledger: newLedger(0)}
	c.faults = []*Fault{{Kind: "kill server", Begin: 1, End: 2 * time.Second}, {Kind: "kill database", Error: "no"}}
	require.ErrorIs(t, c.report(time.Second).Err(), ErrNotInjected)
	for i := range maxViolations + 5 {
		c.ledger.violate("I4", "order %d is lost", i%(maxViolations+3)) // the last two repeat the first
	}
	r := c.report(time.Second)
	require.ErrorContains(t, r.Err(), "103 violations")
	var text, data bytes.Buffer
	require.NoError(t, r.WriteMarkdown(&text))
	for _, want := range []string{
		"| I3 Conservation | holds |", "| I4 Answers are true | **BROKEN** |", "order 7 is lost", "- 3 more",
		"| kill server | 1 | 0 | 2.0 s / 2.0 s |", "kill database of : no",
	} {
		require.Contains(t, text.String(), want)
	}
	require.NoError(t, r.WriteJSON(&data))
	var again Report
	require.NoError(t, json.Unmarshal(data.Bytes(), &again))
	require.Equal(t, r, &again)
}
