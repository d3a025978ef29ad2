package lock

import (
	"context"
	_ "embed"
)

var (
	//go:embed lua/latch_acquire.lua
	latchAcquire string
	//go:embed lua/latch_leave.lua
	latchLeave string
	//go:embed lua/latch_set.lua
	latchSet string
	//go:embed lua/latch_down.lua
	latchDown string
	//go:embed lua/latch_count.lua
	latchCount string
)

var latchKind = &kind{name: "latch", acquire: newScript(latchAcquire), release: newScript(latchLeave)}

var (
	latchSetScript   = newScript(requestSource + latchSet)
	latchDownScript  = newScript(requestSource + latchDown)
	latchCountScript = newScript(latchCount)
)

// A Latch is a count in Redis that goes down to zero, and lets go then all who
// wait for that. It can be set again afterwards. A latch stays in Redis until
// its count is zero; one whose key is deleted, or that Redis lost, is done.
//
// Every change is made once, also if a reply is lost: it is then asked for
// again, for at most 10 s.
type Latch struct{ named }

// Latch returns the latch of that name, which may be any text but the empty
// one. It does not talk to the server.
func (c *Client) Latch(name string) *Latch {
	return &Latch{named{c: c, kind: latchKind, name: name, keys: keysOf(c.prefix, latchKind.name, name)}}
}

// TrySetCount sets the count to n, from 1 to MaxPermits. It returns false, and
// changes nothing, while there is a count above zero.
//
// If ctx ends before the answer comes, the error matches ErrUncertain.
func (l *Latch) TrySetCount(ctx context.Context, n int64) (bool, error) {
	if err := l.checkCount(n); err != nil {
		return false, err
	}
	set, err := l.request(latchSetScript, n).take(ctx)
	return set == 1, err
}

// CountDown takes one from the count. At zero it does nothing, and neither does
// it for a latch that was never set.
//
// If ctx ends, or has ended before, it goes on in the background; if it is not
// done within some 20 ms, the error matches ErrUncertain and ctx.Err().
// ErrUncertain without the latter means that Redis did not answer for 10 s.
func (l *Latch) CountDown(ctx context.Context) error {
	if err := l.check(); err != nil {
		return err
	}
	_, err := l.request(latchDownScript).give(ctx)
	return err
}

// Count is the count, 0 for a latch that was never set. It may have changed by
// the time it is known.
func (l *Latch) Count(ctx context.Context) (int64, error) { return l.ask(ctx, latchCountScript) }

// Wait waits for the count to reach zero, or for ctx to be done; the error then
// matches both ErrNotAcquired and ctx.Err(). If the count is zero already, or
// was never set, it returns at once. Other errors are those of [Locker]'s Lock.
//
// Who stands in the queue when the count reaches zero need not wait for the next
// time, however soon the latch is set again. ErrUncertain means nothing here, since
// there is nothing to hold.
func (l *Latch) Wait(ctx context.Context) error {
	if err := l.check(); err != nil {
		return err
	}
	if _, err := l.c.newClaim(l.kind, l.keys, unleased).acquire(ctx, true); err != nil {
		return l.fail(err)
	}
	return nil
}
