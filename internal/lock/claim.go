package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A kind is a kind of lock, defined by its scripts. lua/common.lua describes their arguments and replies.
type kind struct {
	// name is a part of keys and events.
	name    string
	acquire *script
	renew   *script
	// release ends everything an id has: its hold and its place in the queue.
	release *script
	// refusal is the error for the reply {-1, 0} of an acquire: a refusal that waiting does not change.
	refusal error
}

// A claim is one attempt to acquire a lock, from the first command until it is granted or given up. Its id also
// identifies the waiter and the hold, and the claim is the hold's keeper. It is used by one goroutine at a time.
type claim struct {
	c     *Client
	kind  *kind
	keys  []string
	id    string
	lease time.Duration
	// extra are the kind's own arguments, which follow those of common.lua.
	extra []any

	// deferrable means that the next acquire may be delayed to share a round trip.
	deferrable bool

	presence presence
	// pending is an acquire whose outcome was not awaited.
	pending *call
}

// presence is what a claim has on the server, as far as the replies tell.
type presence int

const (
	absent          presence = iota // nothing
	inQueue                         // a place in the queue
	perhapsHolding                  // perhaps the hold: the reply to an acquire was lost or came too late
	holding                         // the hold
	perhapsReleased                 // perhaps the hold: the reply to a release was lost
)

// A verdict is the outcome of one acquire.
type verdict struct {
	ok bool

	// Of a grant. The token is 0 for kinds without tokens.
	token      uint64
	validUntil time.Time

	// retry is when to try again after a refusal, unless woken.
	retry time.Duration
}

// Modes of an acquire, the values of MODE in common.lua.
const (
	modeTry  = "try"
	modeWait = "wait"
)

var errTooLate = errors.New("the server answered too late for the lease")

func (c *Client) newClaim(k *kind, keys []string, lease time.Duration, extra ...any) *claim {
	return &claim{
		c:     c,
		kind:  k,
		keys:  keys,
		id:    c.newID(),
		lease: lease,
		extra: extra,
	}
}

func (c *Client) scriptArgs(id string, lease time.Duration, mode string, extra ...any) []any {
	args := make([]any, 0, 4+len(extra))
	args = append(args, wakePrefix(c.prefix), id, lease.Milliseconds(), mode)
	return append(args, extra...)
}

func (cl *claim) args(lease time.Duration, mode string) []any {
	return cl.c.scriptArgs(cl.id, lease, mode, cl.extra...)
}

// owned reports whether the claim has an owner, which is then the first of the kind's own arguments.
func (cl *claim) owned() bool {
	if len(cl.extra) == 0 {
		return false
	}
	owner, ok := cl.extra[0].(string)
	return ok && owner != ""
}

// acquireOnce sends one acquire. After an error the claim's presence records what may have been executed.
func (cl *claim) acquireOnce(ctx context.Context, mode string) (verdict, error) {
	began := time.Now()
	call := &call{
		script:     cl.kind.acquire,
		keys:       cl.keys,
		args:       cl.args(cl.lease, mode),
		deferrable: cl.deferrable,
	}
	cl.deferrable = false

	if !cl.c.exec.wait(ctx, cl.c.exec.submit(call)) {
		cl.pending = call
		cl.presence = perhapsHolding
		return verdict{}, waitEnded(ctx)
	}

	if call.err != nil {
		if !notExecuted(call.err) {
			cl.presence = perhapsHolding
		}
		return verdict{}, call.err
	}

	reply, err := ints(call.value, 2)
	if err != nil {
		cl.presence = perhapsHolding
		return verdict{}, err
	}

	// A refused id either never held the lock or its lease has ended.
	switch {
	case reply[0] == 1:
		return cl.granted(began, reply[1])
	case reply[0] == 0 && mode == modeWait:
		cl.presence = inQueue
	case reply[0] == 0:
		cl.presence = absent
	default:
		if cl.presence == perhapsHolding {
			cl.presence = inQueue
		}
		return verdict{}, cl.kind.refusal
	}

	position := int64(0)
	if len(reply) > 2 {
		position = reply[2]
	}
	return verdict{retry: retryIn(reply[1], position)}, nil
}

func (cl *claim) granted(began time.Time, token int64) (verdict, error) {
	validUntil := began.Add(cl.lease - drift(cl.lease))
	if time.Until(validUntil) <= margin(cl.lease) {
		cl.presence = perhapsHolding
		return verdict{}, fmt.Errorf("%w of %v", errTooLate, cl.lease)
	}

	cl.presence = holding
	return verdict{
		ok:         true,
		token:      uint64(token), //nolint:gosec // not negative
		validUntil: validUntil,
	}, nil
}

// withdraw ends everything that the claim may have on the server after an acquire failed with err, and returns the
// error for the caller. What the server does not confirm at once continues in the background; if a lock may have been
// taken, or nothing continues, the error then matches ErrUncertain.
func (cl *claim) withdraw(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ErrNotAcquired) {
		err = fmt.Errorf("%w: %w", ErrNotAcquired, waitEnded(ctx))
	}
	if cl.presence == absent {
		return err
	}

	// The release must not overtake an acquire that is still in flight.
	last := cl.pending
	if last == nil {
		last = cl.sendRelease()
		if last.answered(ctx) && last.err == nil {
			return err
		}
	}

	// As long as the claim is queued, a release may hand the lock over to it.
	undone := cl.undoLater(last)
	if cl.presence == perhapsHolding || !undone {
		err = fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return err
}

func (cl *claim) sendRelease() *call { return cl.c.exec.submit(cl.releaseCall()) }

// releaseCall returns the release of the claim. Its reply may hand the lock over to a waiter of this client, which is
// woken at once. If the reply is lost, all waiters are woken.
func (cl *claim) releaseCall() *call {
	began := time.Now()
	return &call{
		script: cl.kind.release,
		keys:   cl.keys,
		args:   cl.args(0, ""),
		onReply: func(value any, err error) {
			reply := readRelease(value)
			switch {
			case err != nil && !notExecuted(err):
				cl.c.hub.wakeAll()
			case reply.successor != "":
				cl.c.hub.handOver(reply.successor, handoff{since: began, token: reply.token})
			}
		},
	}
}

// A releaseReply is the reply to a release: whether it ended a hold, and the successor's id and token if the lock was
// handed over.
type releaseReply struct {
	held      bool
	successor string
	token     int64
}

func readRelease(value any) releaseReply {
	list, ok := value.([]any)
	if !ok || len(list) != 3 {
		return releaseReply{held: value == int64(1)}
	}

	reply := releaseReply{held: list[0] == int64(1)}
	reply.successor, _ = list[1].(string)
	reply.token, _ = list[2].(int64)
	return reply
}

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

func (cl *claim) release(ctx context.Context) error {
	c := cl.releaseCall()
	if !cl.c.exec.wait(ctx, cl.c.exec.submit(c)) {
		cl.presence = perhapsReleased
		return waitEnded(ctx)
	}

	if c.err != nil {
		if !notExecuted(c.err) {
			cl.presence = perhapsReleased
		}
		return c.err
	}

	// If nothing was there, an earlier release, whose reply was lost, may have freed it.
	if !readRelease(c.value).held && cl.presence != perhapsReleased {
		return ErrNotHeld
	}
	return nil
}

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

const (
	// recheck is the longest time that a waiter sleeps. Rechecking also proves that the waiter is alive, so recheck is
	// less than a third of WAITER_TTL in common.lua.
	recheck = 1300 * time.Millisecond

	// faultWindow is how long a waiter retries while it receives only errors.
	faultWindow = 10 * time.Second
)

// acquire tries once or, if wait is set, until the lock is granted, ctx ends, or Redis fails. After an error nothing is
// left on the server, or an undo is running in the background.
func (cl *claim) acquire(ctx context.Context, wait bool) (verdict, error) {
	if cl.c.life.Err() != nil {
		return verdict{}, ErrClosed
	}
	if ctx.Err() != nil {
		return verdict{}, fmt.Errorf("%w: %w", ErrNotAcquired, waitEnded(ctx))
	}

	// Queueing costs the server more than a try, and needs the hub. But if the hub has waiters already, this caller
	// will probably have to wait too.
	if wait && cl.c.hub.subscribed() {
		return cl.await(ctx)
	}

	a, err := cl.acquireOnce(ctx, modeTry)
	switch {
	case err == nil && a.ok:
		return a, nil
	case err == nil && wait:
		return cl.await(ctx)
	case err == nil:
		err = ErrNotAcquired
	}
	return verdict{}, cl.withdraw(ctx, err)
}

func (cl *claim) await(ctx context.Context) (verdict, error) {
	woken, confirmed, err := cl.c.hub.join(cl.id, cl.keys[0]) //nolint:contextcheck // the subscription serves other waiters too
	if err != nil {
		return verdict{}, err
	}

	// Last, because Close waits for it.
	defer cl.c.hub.leave(cl.id)
	a, err := cl.queue(ctx, woken, confirmed)
	if err != nil {
		return verdict{}, cl.withdraw(ctx, err)
	}
	return a, nil
}

// queue waits in the queue. After an error the caller calls withdraw.
func (cl *claim) queue(ctx context.Context, woken, confirmed <-chan struct{}) (verdict, error) {
	// Behind other waiters of this client, being queued is not urgent, except for an owner, which may pass them.
	cl.deferrable = cl.c.hub.waitersFor(cl.keys[0]) > 1 && !cl.owned()

	if !isClosed(confirmed) {
		if err := cl.sleep(ctx, confirmed, confirmTimeout); err != nil {
			return verdict{}, err
		}
	}

	// A fault of the very first attempt is final, because there was no reply before.
	lastReply := time.Time{}
	for try := 0; ; {
		a, err := cl.acquireOnce(ctx, modeWait)
		switch {
		case err == nil && a.ok:
			return a, nil
		case err == nil:
			lastReply = time.Now()
			try = 0
		case errors.Is(err, cl.kind.refusal), ctx.Err() != nil, time.Since(lastReply) > faultWindow:
			return verdict{}, err
		default:
			a.retry = backoff(try)
			try++
		}

		if err := cl.sleep(ctx, woken, a.retry); err != nil {
			return verdict{}, err
		}

		// If a handoff arrived too late for a short lease, the lock is still this claim's: the next acquire confirms that.
		if given := cl.c.hub.takeHandoff(cl.id); given != nil {
			if a, err := cl.granted(given.since, given.token); err == nil {
				return a, nil
			}
		}
	}
}

func (cl *claim) sleep(ctx context.Context, woken <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()

	select {
	case <-woken:
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotAcquired, waitEnded(ctx))
	case <-cl.c.life.Done():
		return fmt.Errorf("%w: %w", ErrNotAcquired, ErrClosed)
	}
}

// retryIn returns when to try again after a refusal with this ms (negative: unknown) and place in the queue. The place
// spreads waiters with the same ms.
func retryIn(ms, place int64) time.Duration {
	if ms < 0 || ms >= recheck.Milliseconds() {
		return recheck
	}
	return time.Duration(ms+1+min(place, 50)) * time.Millisecond
}

// undoLater waits for the claim's last command, and then releases in the background until the server has confirmed it,
// undoWindow is over, or the client is closed. It returns false if no slot was free for that.
func (cl *claim) undoLater(last *call) bool {
	return undoInBackground(func() {
		deadline := time.Now().Add(undoWindow)
		for try := 0; ; try++ {
			<-last.done
			released := last.script == cl.kind.release && last.err == nil
			if released || time.Now().After(deadline) || cl.c.life.Err() != nil {
				return
			}

			if last.script == cl.kind.release {
				time.Sleep(backoff(try))
			}
			last = cl.sendRelease()
		}
	})
}
