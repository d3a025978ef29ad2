package lock

import (
	"context"
	_ "embed"
	"time"
)

var (
	//go:embed lua/leased.lua
	leasedSource string
	//go:embed lua/leased_acquire.lua
	leasedAcquire string
	//go:embed lua/leased_renew.lua
	leasedRenew string
	//go:embed lua/leased_release.lua
	leasedRelease string
)

var leasedKind = &kind{
	name:    "leased",
	acquire: newScript(semaphoreSource + leasedSource + leasedAcquire),
	renew:   newScript(semaphoreSource + leasedSource + leasedRenew),
	release: newScript(semaphoreSource + leasedSource + leasedRelease),
}

var leasedPool = newPoolScripts(semaphoreSource + leasedSource)

// A LeasedSemaphore is a [Semaphore] whose permits have a lease, as a [Hold]
// has: they come back by themselves when their holder has died. Its permits are
// given back by who took them and by nobody else, and all at once.
//
// Who waits when a lease ends gets in within 100 ms. If the semaphore's key is
// deleted, all permits that are held are lost.
type LeasedSemaphore struct{ pool }

// LeasedSemaphore returns the leased semaphore of that name, which may be any
// text but the empty one. It does not talk to the server.
func (c *Client) LeasedSemaphore(name string) *LeasedSemaphore {
	n := named{c: c, kind: leasedKind, name: name, keys: keysOf(c.prefix, leasedKind.name, name, holdersKey)}
	return &LeasedSemaphore{pool{n, leasedPool}}
}

// Acquire waits until it has taken n permits, from 1 to MaxPermits, or ctx is
// done. The error then matches both ErrNotAcquired and ctx.Err(), and nothing
// is taken. Other errors are those of [Locker]'s Lock.
func (s *LeasedSemaphore) Acquire(ctx context.Context, n int64, opts ...Option) (*Permits, error) {
	return s.acquire(ctx, n, true, opts)
}

// TryAcquire takes n permits if that many are free beyond what those want who
// wait already. Otherwise the error matches ErrNotAcquired. ctx bounds the
// asking.
func (s *LeasedSemaphore) TryAcquire(ctx context.Context, n int64, opts ...Option) (*Permits, error) {
	return s.acquire(ctx, n, false, opts)
}

func (s *LeasedSemaphore) acquire(ctx context.Context, n int64, wait bool, opts []Option) (*Permits, error) {
	if err := s.checkCount(n); err != nil {
		return nil, err
	}
	h, err := s.lock(ctx, opts, wait, n)
	if err != nil {
		return nil, err
	}
	return &Permits{h}, nil
}

// Permits are what one Acquire took. They are a [Hold] without a token, and
// have its rules: a watchdog renews the lease unless [WithLease] fixed it, and
// they end by Release or by loss. The methods are safe for concurrent use.
type Permits struct{ hold *Hold }

// Context is that of [Hold.Context].
func (p *Permits) Context() context.Context { return p.hold.Context() }

// Extend is [Hold.Extend].
func (p *Permits) Extend(ctx context.Context, d time.Duration) error { return p.hold.Extend(ctx, d) }

// Release gives all of them back, with the rules of [Hold.Release]. After a
// loss it gives nothing, since they came back by themselves, and the error
// matches ErrNotHeld.
func (p *Permits) Release(ctx context.Context) error { return p.hold.Release(ctx) }
