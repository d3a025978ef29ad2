package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
)

// A session is one attempt to acquire a RedLock and, if it succeeds, the keeper of its hold. redsync counts votes and
// validity; the session records what redsync does not: the state of each node. At most one method runs at a time.
//
// Traps of redsync 4.18.1 that it avoids:
//
//   - Errors of the release that follows a failed acquire are dropped, and a quorum of "taken" hides the errors of the
//     other nodes: a nodeState keeps both.
//   - A release whose first reply was lost finds nothing the second time, and redsync reports "not held": a nodeState
//     records that it may have deleted the key.
//   - A failed acquire sends the release to every node: a nodeState answers for a node that does not have the key.
//   - WithSetNXOnExtend acquires a lost lock again: it stays off, and refill sets the key only after a quorum has
//     confirmed the hold.
//   - WithFailFast returns while commands are in flight, and a release may overtake the acquire on a slow node: it
//     stays off.
type session struct {
	lease   time.Duration
	timeout time.Duration // of one command on one node
	key     string
	value   string // of the key while the session holds it; unique to this attempt
	states  []nodeState
	sync    *redsync.Redsync
	mutex   *redsync.Mutex
}

func newSession(l *redLock, lease time.Duration) *session {
	s := &session{
		lease: lease,
		// A third leaves time to use the lock, or to renew it once more.
		timeout: min(l.nodeTimeout, lease/3),
		value:   rand.Text(),
		key:     RedLockKey(l.name),
		states:  make([]nodeState, len(l.nodes)),
	}

	pools := make([]redsyncredis.Pool, len(l.nodes))
	for i, n := range l.nodes {
		s.states[i].node = n
		s.states[i].all = l.nodes
		pools[i] = &s.states[i]
	}

	s.sync = redsync.New(pools...)
	s.mutex = s.newMutex(lease)
	return s
}

func (s *session) newMutex(d time.Duration) *redsync.Mutex {
	return s.sync.NewMutex(s.key,
		redsync.WithExpiry(d),
		redsync.WithTries(1),
		redsync.WithDriftFactor(driftFactor),
		redsync.WithTimeoutFactor(float64(s.timeout)/float64(d)),
		redsync.WithValue(s.value),
		redsync.WithGenValueFunc(func() (string, error) { return s.value, nil }),
	)
}

// acquire tries every node once. After an error nothing is left on the nodes, or an undo is running in the background.
func (s *session) acquire(ctx context.Context) (time.Time, error) {
	if err := s.mutex.TryLockContext(ctx); err == nil {
		return s.mutex.Until(), nil
	}

	// Unless ctx has ended, redsync has sent the release already, except to nodes that are clear.
	err := s.acquireError()
	s.undoInBackground(ctx)
	return time.Time{}, err
}

func (s *session) tolerated() int { return (len(s.states) - 1) / 2 }

func (s *session) uncleared() int {
	n := 0
	for i := range s.states {
		if !s.states[i].key.clear() {
			n++
		}
	}
	return n
}

func (s *session) acquireError() error {
	taken, failed, faults := s.count(func(n *nodeState) vote { return n.acquired })

	var err error
	switch {
	case taken > s.tolerated(), taken > 0 && failed <= s.tolerated():
		err = ErrNotAcquired
	case failed > s.tolerated():
		err = faults
	default:
		err = fmt.Errorf("%w of %v", errTooLate, s.lease)
	}

	// That many nodes can deny others a quorum.
	if s.uncleared() > s.tolerated() {
		err = fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return err
}

// quorumError returns the reason why a renewal or a release found no quorum: ErrNotHeld if so many nodes voted no that
// a quorum is out of reach, otherwise the nodes' errors.
func (s *session) quorumError(err error) error {
	no, _, faults := s.count(func(n *nodeState) vote { return n.last })
	switch {
	case no > s.tolerated():
		return ErrNotHeld
	case faults != nil:
		return faults
	default:
		// A quorum voted yes, but too late.
		return err
	}
}

func (s *session) count(of func(*nodeState) vote) (no, failed int, faults error) {
	for i := range s.states {
		v := of(&s.states[i])
		if v.err != nil {
			failed++
			faults = errors.Join(faults, s.nodeError(i, v.err))
		} else if !v.yes {
			no++
		}
	}
	return no, failed, faults
}

func (s *session) nodeError(i int, err error) error {
	if len(s.states) == 1 {
		return err
	}
	return fmt.Errorf("node %d: %w", i, err)
}

func (s *session) renew(ctx context.Context, d time.Duration) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, min(s.timeout, d/3))
	defer cancel()

	mutex := s.newMutex(d)
	ok, err := mutex.ExtendContext(ctx)
	if !ok {
		return time.Time{}, s.quorumError(err)
	}
	s.refill(ctx, d)
	return mutex.Until(), nil
}

// refill sets the key on the nodes without it, which were not reached at first or have lost their data, right after a
// quorum has confirmed the hold. Otherwise a hold with a bare quorum would end with the data of a single node. The key of
// another holder stays.
func (s *session) refill(ctx context.Context, d time.Duration) {
	var nodes sync.WaitGroup
	for i := range s.states {
		n := &s.states[i]
		if n.last.err != nil || n.last.yes {
			continue
		}

		// The state records the outcome for the release.
		nodes.Go(func() {
			c := &conn{ctx: ctx, state: n}
			_, _ = c.SetNX(s.key, s.value, d)
		})
	}
	nodes.Wait()
}

// release implements keeper. If a minority of nodes could not be reached, they are cleared in the background, so that
// they do not hinder the next holders.
func (s *session) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()

	ok, err := s.mutex.UnlockContext(ctx)
	if ok {
		err = nil
	} else {
		err = s.quorumError(err)
	}

	// After another error the hold calls again.
	if err == nil || errors.Is(err, ErrNotHeld) {
		s.undoInBackground(ctx)
	}
	return err
}

// undo removes the session's key from the nodes that may have it, until that is done or undoWindow is over. It ignores
// the end of ctx.
func (s *session) undo(ctx context.Context) {
	deadline := time.Now().Add(min(undoWindow, s.lease))
	for try := 0; ; try++ {
		// The node states record the outcome more exactly than the result.
		tryCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		_, _ = s.mutex.UnlockContext(tryCtx)
		cancel()

		pause := backoff(try)
		if s.uncleared() == 0 || time.Now().Add(pause).After(deadline) {
			return
		}
		time.Sleep(pause)
	}
}

// undoInBackground starts the undo, if there is anything to undo. The caller must not use the session afterwards.
func (s *session) undoInBackground(ctx context.Context) {
	if s.uncleared() > 0 {
		undoInBackground(func() { s.undo(ctx) })
	}
}
