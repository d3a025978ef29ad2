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

// A LeasedSemaphore is a [Semaphore] whose permits have a lease, as a [Hold] has: they are returned by themselves when
// their holder has died. Permits are released only by the [Permits] of the Acquire that took them, all at once.
//
// A waiter gets its permits within 100 ms after the leases that it needs have ended. If the semaphore's key is deleted,
// all permits held are lost.
type LeasedSemaphore struct{ pool }

// LeasedSemaphore returns the leased semaphore with that name, which must not be empty. It sends no command.
func (c *Client) LeasedSemaphore(name string) *LeasedSemaphore {
	n := named{c: c, kind: leasedKind, name: name, keys: keysOf(c.prefix, leasedKind.name, name, holdersKey)}
	return &LeasedSemaphore{pool{n, leasedPool}}
}

// Acquire waits until it has taken n permits, from 1 to MaxPermits, or ctx is done. In the latter case the error
// matches both ErrNotAcquired and ctx.Err(), and nothing is taken. Other errors are those of [Locker]'s Lock.
func (s *LeasedSemaphore) Acquire(ctx context.Context, n int64, opts ...Option) (*Permits, error) {
	return s.acquire(ctx, n, true, opts)
}

// TryAcquire takes n permits if that many are free beyond those that earlier waiters want. Otherwise the error matches
// ErrNotAcquired. ctx bounds the command.
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

// Permits are what one Acquire took. They follow the rules of a [Hold] without a token: a watchdog renews the lease
// unless [WithLease] fixed it, and they end by Release or by loss. The methods are safe for concurrent use.
type Permits struct{ hold *Hold }

// Context returns the context of the permits; see [Hold.Context].
func (p *Permits) Context() context.Context { return p.hold.Context() }

// Extend makes the lease end d from now; see [Hold.Extend].
func (p *Permits) Extend(ctx context.Context, d time.Duration) error { return p.hold.Extend(ctx, d) }

// Release releases all permits; see [Hold.Release]. After a loss it changes nothing, because the permits were returned
// already, and the error matches ErrNotHeld.
func (p *Permits) Release(ctx context.Context) error { return p.hold.Release(ctx) }
