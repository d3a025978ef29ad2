package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A kind is a kind of lock: the scripts that are all it does on the server.
// common.lua says what they are given and what they return.
type kind struct {
	name    string // in keys and events
	acquire *script
	renew   *script
	release *script // ends whatever an id has: the hold, the place in the queue
	refusal error   // what {-1, 0} from an acquire means: a no that waiting does not change
}

// A claim is one attempt to get a lock, from the first question until it is
// granted or given up. Its id is that of the waiter, too, and of the hold, and
// it is the hold's keeper. It is used by one goroutine at a time.
type claim struct {
	c     *Client
	kind  *kind
	keys  []string
	id    string
	lease time.Duration
	extra []any // the kind's own arguments, after those of common.lua

	patient  bool  // the next question may wait a little
	joined   bool  // the hub
	inFlight *call // an acquire whose outcome we did not wait for
	unheard  bool  // an acquire may have been executed, but its answer is lost
	queued   bool  // the id may be in the queue
	freed    bool  // a release may have been executed, but its answer is lost
}

// A verdict is what an acquire was told.
type verdict struct {
	ok         bool
	token      uint64        // if ok; 0 for kinds without one
	validUntil time.Time     // if ok
	retry      time.Duration // if not: when to ask again, unless woken
}

// Modes of an acquire, the values of MODE in common.lua.
const (
	modeTry  = "try"
	modeWait = "wait"
)

var errTooLate = errors.New("the server answered too late for the lease")

func (c *Client) newClaim(k *kind, keys []string, lease time.Duration, extra ...any) *claim {
	return &claim{c: c, kind: k, keys: keys, id: c.newID(), lease: lease, extra: extra}
}

// scriptArgs are the arguments of every script.
func (c *Client) scriptArgs(id string, lease time.Duration, mode string, extra ...any) []any {
	args := make([]any, 0, 4+len(extra))
	args = append(args, wakePrefix(c.prefix), id, lease.Milliseconds(), mode)
	return append(args, extra...)
}

func (cl *claim) args(lease time.Duration, mode string) []any {
	return cl.c.scriptArgs(cl.id, lease, mode, cl.extra...)
}

// owned says whether the claim is of an owner: then it is the first of the kind's
// own arguments.
func (cl *claim) owned() bool {
	if len(cl.extra) == 0 {
		return false
	}
	owner, ok := cl.extra[0].(string)
	return ok && owner != ""
}

// ask asks for the lock once. An error leaves the claim's flags saying what may
// have come of it.
func (cl *claim) ask(ctx context.Context, mode string) (verdict, error) {
	began := time.Now()
	call := &call{script: cl.kind.acquire, keys: cl.keys, args: cl.args(cl.lease, mode), patient: cl.patient}
	cl.patient = false
	if !cl.c.exec.deliver(ctx, call) {
		cl.inFlight, cl.unheard, cl.queued = call, true, true
		return verdict{}, waitEnded(ctx)
	}
	if call.err != nil {
		if !notExecuted(call.err) {
			cl.unheard, cl.queued = true, true
		}
		return verdict{}, call.err
	}
	reply, err := ints(call.value, 2)
	if err != nil {
		cl.unheard = true
		return verdict{}, err
	}
	if reply[0] == 1 {
		return cl.granted(began, reply[1])
	}
	// An id that is not inside now either never was, or its lease has ended.
	cl.unheard = false
	if reply[0] < 0 {
		return verdict{}, cl.kind.refusal
	}
	cl.queued = mode == modeWait
	place := int64(0)
	if len(reply) > 2 {
		place = reply[2]
	}
	return verdict{retry: retryIn(reply[1], place)}, nil
}

func (cl *claim) granted(began time.Time, token int64) (verdict, error) {
	a := verdict{ok: true, token: uint64(token), validUntil: began.Add(cl.lease - drift(cl.lease))} //nolint:gosec // not negative
	if time.Until(a.validUntil) <= margin(cl.lease) {
		cl.unheard = true // as good as
		return verdict{}, fmt.Errorf("%w of %v", errTooLate, cl.lease)
	}
	return a, nil
}

// withdraw ends whatever the claim may have on the server, after an acquire
// that ended in err, and returns what to tell the caller. What the server does
// not confirm at once goes on in the background; if a lock may have been taken,
// the error then matches ErrUncertain.
func (cl *claim) withdraw(ctx context.Context, err error) error {
	if !cl.unheard && !cl.queued {
		return err
	}
	last := cl.inFlight // which the release must not overtake
	if last == nil {
		last = cl.sendRelease()
		if last.wait(ctx) && last.err == nil {
			return err
		}
	}
	cl.undoLater(last)
	if cl.unheard {
		err = fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return err
}

func (cl *claim) sendRelease() *call { return cl.c.exec.post(cl.releaseOf(cl.id)) }

// releaseOf is the release of an id, whose answer may leave the lock to a waiter
// of this client: it is told at once, or, if it is gone, the lock goes to the
// next. If the answer is lost, all waiters ask.
func (cl *claim) releaseOf(id string) *call {
	began := time.Now()
	return &call{
		script: cl.kind.release, keys: cl.keys, args: cl.c.scriptArgs(id, 0, "", cl.extra...),
		heed: func(value any, err error) {
			_, heir, token := readRelease(value)
			switch {
			case err != nil && !notExecuted(err):
				cl.c.hub.wakeAll()
			case heir != "" && !cl.c.hub.leaveTo(heir, inheritance{since: began, token: token}):
				cl.c.exec.post(cl.releaseOf(heir))
			}
		},
	}
}

// readRelease reads the answer of a release: whether it ended a hold, and to
// whom it left the lock.
func readRelease(value any) (held bool, heir string, token int64) {
	if list, ok := value.([]any); ok && len(list) == 3 {
		heir, _ = list[1].(string)
		token, _ = list[2].(int64)
		value = list[0]
	}
	return value == int64(1), heir, token
}

// renew implements keeper.
func (cl *claim) renew(ctx context.Context, d time.Duration) (time.Time, error) {
	// A third leaves time to use the lock, or to renew it once more.
	ctx, cancel := context.WithTimeout(ctx, min(2*commandTimeout, d/3))
	defer cancel()
	began := time.Now()
	v, err := cl.c.exec.run(ctx, cl.kind.renew, cl.keys, cl.args(d, ""))
	if err != nil {
		return time.Time{}, err
	}
	if v != int64(1) {
		return time.Time{}, ErrNotHeld
	}
	return began.Add(d - drift(d)), nil
}

// release implements keeper.
func (cl *claim) release(ctx context.Context) error {
	c := cl.releaseOf(cl.id)
	if !cl.c.exec.deliver(ctx, c) {
		cl.freed = true
		return waitEnded(ctx)
	}
	held, _, _ := readRelease(c.value)
	switch {
	case c.err != nil:
		cl.freed = cl.freed || !notExecuted(c.err)
		return c.err
	case !held && !cl.freed:
		return ErrNotHeld
	default: // if nothing was there, we freed it and did not hear of it
		return nil
	}
}

// ints reads a script's reply of at least n integers.
func ints(value any, n int) ([]int64, error) {
	list, ok := value.([]any)
	out := make([]int64, len(list))
	for i := range list {
		var isInt bool
		out[i], isInt = list[i].(int64)
		ok = ok && isInt
	}
	if !ok || len(out) < n {
		return nil, fmt.Errorf("lock: unexpected reply %v", value)
	}
	return out, nil
}
