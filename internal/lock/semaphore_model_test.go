package lock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// A line models a semaphore's queue and records which waiters were woken.
type line struct {
	t       *testing.T
	k       permitKind
	c       *Client
	s       permitSource
	wakes   *wakes
	held    []*claim
	queue   []*claim
	woken   map[string]bool // since its last acquire
	retried map[string]time.Time
}

func wants(cl *claim) int64 { return cl.extra[0].(int64) }

// come acquires for a claim, and compares the reply with the model.
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
	delete(l.woken, cl.id)
	at := slices.Index(l.queue, cl)
	switch {
	case fits && at >= 0:
		l.queue = slices.Delete(l.queue, at, at+1)
		l.held = append(l.held, cl)
	case fits:
		l.held = append(l.held, cl)
	default:
		l.retried[cl.id] = time.Now()
		if at < 0 {
			l.queue = append(l.queue, cl)
		}
	}
}

// end releases a claim or removes it from the queue.
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

// check requires that every admissible waiter was woken, and no other.
func (l *line) check(step int) {
	l.t.Helper()
	now := l.wakes.received()
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
		require.Contains(l.t, fit, id, "step %d: woken but cannot be admitted", step)
		l.woken[id] = true
	}
	for _, id := range fit {
		require.True(l.t, l.woken[id], "step %d: %s can be admitted and was not woken", step, id)
	}
}

// After any sequence of changes, every admissible waiter was woken since its last acquire.
func TestNoWakeIsLost(t *testing.T) {
	testenv.Full(t)
	eachSemaphore(t, onSingleServers, func(t *testing.T, addr string, k permitKind) {
		seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
		t.Logf("seed %d", seed)
		for round := 0; !walk(t, addr, k, fmt.Sprint("walk ", round), seed); round++ {
			require.Less(t, round, 20, "the machine stalls again and again")
		}
	})
}

// walk makes random changes. It returns false if the machine stalled so long that waiters died, which the model does
// not represent.
func walk(t *testing.T, addr string, k permitKind, name string, seed uint64) bool {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // reproducible
	c := newLocks(t, addr)
	l := &line{
		t: t, k: k, c: c, s: k.of(c, name), wakes: listenTo(t, addr, c),
		woken: map[string]bool{}, retried: map[string]time.Time{},
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
			switch age := time.Since(l.retried[cl.id]); {
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
