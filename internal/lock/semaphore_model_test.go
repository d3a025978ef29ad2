package lock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A line is a semaphore's queue as it should be, and who of it was told to ask.
type line struct {
	t     *testing.T
	k     permitKind
	c     *Client
	s     permitSource
	heard *wakes
	held  []*claim
	queue []*claim
	told  map[string]bool // since it asked last
	asked map[string]time.Time
}

func wants(cl *claim) int64 { return cl.extra[0].(int64) }

// come asks, and is let in or not as the model says.
func (l *line) come(cl *claim) {
	l.t.Helper()
	free, err := l.s.Available(soon(l.t))
	require.NoError(l.t, err)
	fits := free >= wants(cl)
	for _, before := range l.queue {
		if before == cl {
			break
		}
		free -= wants(before)
		fits = fits && free >= wants(cl)
	}
	requireIn(l.t, cl, fits)
	delete(l.told, cl.id)
	at := slices.Index(l.queue, cl)
	switch {
	case fits && at >= 0:
		l.queue = slices.Delete(l.queue, at, at+1)
		l.held = append(l.held, cl)
	case fits:
		l.held = append(l.held, cl)
	default:
		l.asked[cl.id] = time.Now()
		if at < 0 {
			l.queue = append(l.queue, cl)
		}
	}
}

// end gives back, or leaves.
func (l *line) end(from *[]*claim, at int) {
	cl := (*from)[at]
	*from = slices.Delete(*from, at, at+1)
	err := cl.release(soon(l.t))
	if from == &l.held {
		require.NoError(l.t, err)
	} else {
		require.ErrorIs(l.t, err, ErrNotHeld)
	}
}

// check requires that everybody was told who could get in now, and nobody else.
func (l *line) check(step int) {
	l.t.Helper()
	now := l.heard.told()
	free, err := l.s.Available(soon(l.t))
	require.NoError(l.t, err)
	var fit []string
	for _, cl := range l.queue {
		if free -= wants(cl); free < 0 {
			break
		}
		fit = append(fit, cl.id)
	}
	for _, id := range now {
		require.Contains(l.t, fit, id, "step %d: told in vain", step)
		l.told[id] = true
	}
	for _, id := range fit {
		require.True(l.t, l.told[id], "step %d: %s could get in, and was not told", step, id)
	}
}

// After any sequence of changes, whoever can get in has been told since it asked
// last.
func TestNoWakeIsLost(t *testing.T) {
	eachSemaphore(t, onSingleServers, func(t *testing.T, addr string, k permitKind) {
		seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
		t.Logf("seed %d", seed)
		for round := 0; !walk(t, addr, k, fmt.Sprint("walk ", round), seed); round++ {
			require.Less(t, round, 20, "the machine stands still again and again")
		}
	})
}

// walk makes random changes, and returns false if the machine stood still meanwhile, so that waiters died, of which the
// model knows nothing.
func walk(t *testing.T, addr string, k permitKind, name string, seed uint64) bool {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // reproducible
	c := newLocks(t, addr)
	l := &line{
		t: t, k: k, c: c, s: k.of(c, name), heard: listenTo(t, addr, c),
		told: map[string]bool{}, asked: map[string]time.Time{},
	}
	for step := range 500 {
		switch rng.IntN(8) {
		case 0, 1, 2:
			if len(l.queue) < 10 {
				l.come(k.claim(c, name, 1+rng.Int64N(4)))
			}
		case 3:
			if len(l.held) > 0 {
				l.end(&l.held, rng.IntN(len(l.held)))
			}
		case 4:
			if len(l.queue) > 0 {
				l.end(&l.queue, rng.IntN(len(l.queue)))
			}
		case 5:
			free, err := l.s.Available(soon(t))
			require.NoError(t, err)
			require.NoError(t, l.s.AddPermits(soon(t), rng.Int64N(9)-2-free))
		default:
			if len(l.queue) > 0 {
				l.come(l.queue[rng.IntN(len(l.queue))])
			}
		}
		l.check(step)
		for _, cl := range slices.Clone(l.queue) {
			switch age := time.Since(l.asked[cl.id]); {
			case age > 3*time.Second:
				return false
			case age > time.Second:
				l.come(cl)
				l.check(step)
			}
		}
	}
	return true
}
