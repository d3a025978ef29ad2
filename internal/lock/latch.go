package lock

import (
	"context"
)

var latchKind = &kind{
	name:    "latch",
	acquire: newScript(lua("latch_acquire")),
	release: newScript(lua("latch_leave")),
}

var (
	latchSetScript   = newScript(lua("request", "latch_set"))
	latchDownScript  = newScript(lua("request", "latch_down"))
	latchCountScript = newScript(lua("latch_count"))
)

// A Latch is a count in Redis that is decremented to zero, and then admits all callers that wait for that. It can be
// set again afterwards. A latch stays in Redis until its count is zero; one whose key is deleted or lost counts as
// zero.
//
// Every change is executed once, even if its reply is lost and the request is repeated, for at most 10 s.
type Latch struct{ named }

// Latch returns the latch with that name, which must not be empty. It sends no command.
func (c *Client) Latch(name string) *Latch { return &Latch{c.newNamed(latchKind, name)} }

// TrySetCount sets the count to n, from 1 to MaxPermits. It returns false and changes nothing if the count is above
// zero.
//
// If ctx ends before the reply, the error matches ErrUncertain.
func (l *Latch) TrySetCount(ctx context.Context, n int64) (bool, error) {
	if err := l.checkCount(n); err != nil {
		return false, err
	}
	set, err := l.request(latchSetScript, n).do(ctx)
	return set == 1, err
}

// CountDown decrements the count. It does nothing if the count is zero or was never set.
//
// If ctx ends, or has ended before, the request continues in the background. If it is not done within some 20 ms, the
// error matches ErrUncertain and ctx.Err(). ErrUncertain without ctx.Err() means that Redis did not answer for 10 s.
func (l *Latch) CountDown(ctx context.Context) error {
	if err := l.check(); err != nil {
		return err
	}
	_, err := l.request(latchDownScript).doAnyway(ctx)
	return err
}

// Count returns the count, 0 for a latch that was never set. It may have changed since it was read.
func (l *Latch) Count(ctx context.Context) (int64, error) { return l.query(ctx, latchCountScript) }

// Wait waits for the count to reach zero, or for ctx to be done; the error then matches both ErrNotAcquired and
// ctx.Err(). It returns at once if the count is zero or was never set. Other errors are those of [Locker]'s Lock.
//
// A waiter that is queued when the count reaches zero returns, however soon the latch is set again. ErrUncertain has no
// consequence here, because a waiter holds nothing.
func (l *Latch) Wait(ctx context.Context) error {
	if err := l.check(); err != nil {
		return err
	}
	if _, err := l.c.newClaim(l.kind, l.keys, unleased).acquire(ctx, true); err != nil {
		return l.fail(err)
	}
	return nil
}
