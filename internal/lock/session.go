package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
)

// A session is one attempt to get a RedLock and, if it succeeds, the keeper of
// its hold. It lets redsync count votes and validity, and keeps what redsync
// does not: what is known of each node. At most one method runs at a time.
//
// Traps of redsync 4.18.1 that this answers:
//
//   - Errors of the release that follows a failed acquire are dropped, and a
//     quorum of "taken" hides the errors of the other nodes: seats keep both.
//   - A release whose first reply was lost finds nothing the second time, and
//     redsync says "not held": a seat remembers that it may have deleted.
//   - A failed acquire sends the release to every node: a seat knows which
//     nodes have nothing of ours and answers for them.
//   - WithSetNXOnExtend takes a lock again that was lost: it stays off.
//   - WithFailFast returns while commands are in flight, and a release may
//     overtake the acquire on a slow node: it stays off.
type session struct {
	lease   time.Duration
	timeout time.Duration // of one command on one node
	value   string        // in the key while it is ours; unique to this attempt
	key     string
	seats   []seat
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
		seats:   make([]seat, len(l.nodes)),
	}
	pools := make([]redsyncredis.Pool, len(l.nodes))
	for i, n := range l.nodes {
		s.seats[i].node = n
		pools[i] = &s.seats[i]
	}
	s.sync = redsync.New(pools...)
	s.mutex = s.newMutex(lease)
	return s
}

// newMutex returns redsync's view of this session, with a lease of d.
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

// acquire asks every node once. After an error nothing is left on the nodes, or
// an undo is under way in the background.
func (s *session) acquire(ctx context.Context) (validUntil time.Time, err error) {
	if err := s.mutex.TryLockContext(ctx); err == nil {
		return s.mutex.Until(), nil
	}
	// redsync has sent the release already, where a seat let it.
	err = s.refusal()
	s.undoGhosts(ctx)
	return time.Time{}, err
}

// spare is how many nodes may be missing from a quorum.
func (s *session) spare() int { return (len(s.seats) - 1) / 2 }

// ghosts counts the nodes on which our key may be, though we do not hold the
// lock.
func (s *session) ghosts() int {
	n := 0
	for i := range s.seats {
		if !s.seats[i].clear {
			n++
		}
	}
	return n
}

// refusal says why acquire failed.
func (s *session) refusal() error {
	taken, failed, faults := s.count(func(s *seat) vote { return s.acquired })
	var err error
	switch {
	case taken > s.spare(), taken > 0 && failed <= s.spare():
		err = ErrNotAcquired
	case failed > s.spare():
		err = faults
	default:
		err = fmt.Errorf("%w of %v", errTooLate, s.lease)
	}
	if s.ghosts() > s.spare() { // as many as can deny a quorum to others
		err = fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return err
}

// denial says why a renewal or a release found no quorum: ErrNotHeld if so many
// nodes said no that a quorum is out of reach, else what went wrong.
func (s *session) denial(err error) error {
	no, _, faults := s.count(func(s *seat) vote { return s.last })
	switch {
	case no > s.spare():
		return ErrNotHeld
	case faults != nil:
		return faults
	default: // a quorum said yes, but too late
		return err
	}
}

// count counts the votes that are no, and those that are errors, and joins the
// errors.
func (s *session) count(of func(*seat) vote) (no, failed int, faults error) {
	for i := range s.seats {
		switch v := of(&s.seats[i]); {
		case v.err != nil:
			failed++
			faults = errors.Join(faults, s.nodeError(i, v.err))
		case !v.yes:
			no++
		}
	}
	return no, failed, faults
}

// nodeError names the node, if there are several.
func (s *session) nodeError(i int, err error) error {
	if len(s.seats) == 1 {
		return err
	}
	return fmt.Errorf("node %d: %w", i, err)
}

// renew implements keeper.
func (s *session) renew(ctx context.Context, d time.Duration) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, min(s.timeout, d/3))
	defer cancel()
	mutex := s.newMutex(d)
	if ok, err := mutex.ExtendContext(ctx); !ok {
		return time.Time{}, s.denial(err)
	}
	return mutex.Until(), nil
}

// release implements keeper. A minority of nodes that could not be reached is
// cleared in the background, so that it does not weigh on the next holders.
func (s *session) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	ok, err := s.mutex.UnlockContext(ctx)
	if ok {
		err = nil
	} else if err = s.denial(err); !errors.Is(err, ErrNotHeld) {
		return err // the hold may call again
	}
	s.undoGhosts(ctx)
	return err
}
