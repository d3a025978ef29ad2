package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxPermits bounds the permits of a semaphore, the permits missing when Available is negative, and the count of a
// latch. Redis scripts count exactly only slightly beyond it.
const MaxPermits = 1 << 50

// unleased is the lease of a claim for something without a lease. A claim drops a grant that arrives later than that.
const unleased = MaxLease

var semaphoreKind = &kind{
	name:    "semaphore",
	acquire: newScript(lua("semaphore", "semaphore_acquire")),
	release: newScript(lua("semaphore", "semaphore_leave")),
}

var (
	semaphorePool   = newPoolScripts(lua("semaphore"))
	releaseScript   = newScript(lua("semaphore", "request", "semaphore_release"))
	drainScript     = newScript(lua("semaphore", "request", "semaphore_drain"))
	errTooFewHeld   = fmt.Errorf("%w: fewer permits are held than were to be released", ErrNotHeld)
	errTooManyTotal = errors.New("the total would exceed MaxPermits or fall below -MaxPermits")
)

// A Semaphore is a number of permits in Redis, of which a caller takes any number at a time and releases it later. It
// does not record holders: the permits of a process that died stay taken until another caller releases them, and a
// caller may release permits that it did not take. Prefer [LeasedSemaphore] if permits should return by themselves.
//
// Waiters are admitted in order of arrival. A request for many permits is therefore never starved by small ones, which
// wait behind it even if there are enough permits for them. A waiter whose process died delays those behind it by 4 to
// 5 s once.
//
// A semaphore stays in Redis until its key is deleted. It then has no permits, like one that was never set, and the
// permits held are void.
//
// Every change is executed once, even if its reply is lost and the request is repeated, for at most 10 s. An Acquire is
// undone instead.
type Semaphore struct{ pool }

// Semaphore returns the semaphore with that name, which must not be empty. It sends no command.
func (c *Client) Semaphore(name string) *Semaphore {
	return &Semaphore{pool{c.newNamed(semaphoreKind, name), semaphorePool}}
}

// Acquire waits until it has taken n permits, from 1 to MaxPermits, or ctx is done. In the latter case the error
// matches both ErrNotAcquired and ctx.Err(), and nothing is taken. Other errors are those of [Locker]'s Lock. After one
// that matches ErrUncertain the permits may stay taken, permanently if Redis could not be reached for 5 s more.
func (s *Semaphore) Acquire(ctx context.Context, n int64) error { return s.acquire(ctx, n, true) }

// TryAcquire takes n permits if that many are free beyond those that earlier waiters want. Otherwise the error matches
// ErrNotAcquired. ctx bounds the command.
func (s *Semaphore) TryAcquire(ctx context.Context, n int64) error { return s.acquire(ctx, n, false) }

func (s *Semaphore) acquire(ctx context.Context, n int64, wait bool) error {
	if err := s.checkCount(n); err != nil {
		return err
	}

	cl := s.c.newClaim(s.kind, nil, unleased, n)
	cl.keys = requestKeys(s.keys, cl.id)
	_, err := s.named.acquire(ctx, cl, wait)
	return err
}

// Release releases n permits. If fewer are held, by all callers together, it changes nothing and the error matches
// ErrNotHeld.
//
// If ctx ends, or has ended before, the release continues in the background. If it is not done within some 20 ms, the
// error matches ErrUncertain and ctx.Err(). ErrUncertain without ctx.Err() means that Redis did not answer for 10 s.
func (s *Semaphore) Release(ctx context.Context, n int64) error {
	if err := s.checkCount(n); err != nil {
		return err
	}

	given, err := s.request(releaseScript, n).doAnyway(ctx)
	if err == nil && given == 0 {
		err = s.fail(errTooFewHeld)
	}

	if s.c.observe != nil && (err == nil || errors.Is(err, ErrUncertain)) {
		kind := EventReleased
		if err != nil {
			kind = EventUncertain
		}
		s.c.observe(Event{
			Kind: kind,
			Lock: s.kind.name,
			Name: s.name,
			Err:  err,
		})
	}
	return err
}

// Drain takes all free permits and returns their number. It ignores the queue: waiters keep waiting.
//
// If ctx ends before the reply, the error matches ErrUncertain.
func (s *Semaphore) Drain(ctx context.Context) (int64, error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	return s.request(drainScript).do(ctx)
}

// A pool is the common part of both kinds of semaphore: the number of permits.
type pool struct {
	named
	scripts *poolScripts
}

type poolScripts struct {
	set       *script
	add       *script
	available *script
}

func newPoolScripts(source string) *poolScripts {
	return &poolScripts{
		set:       newScript(source + lua("request", "semaphore_set")),
		add:       newScript(source + lua("request", "semaphore_add")),
		available: newScript(source + lua("semaphore_available")),
	}
}

// SetPermits sets the number of permits, from 1 to MaxPermits, once: it returns false and changes nothing if the number
// was set or changed before.
//
// If ctx ends before the reply, the error matches ErrUncertain.
func (p *pool) SetPermits(ctx context.Context, n int64) (bool, error) {
	if err := p.checkCount(n); err != nil {
		return false, err
	}
	set, err := p.request(p.scripts.set, n).do(ctx)
	return set == 1, err
}

// AddPermits changes the number of permits by delta. If fewer remain than are held, Available is negative, and no
// caller is admitted until enough have been released. A semaphore that was never set starts from 0.
//
// If ctx ends before the reply, the error matches ErrUncertain.
func (p *pool) AddPermits(ctx context.Context, delta int64) error {
	if delta == 0 {
		return p.check()
	}
	if delta < -MaxPermits || delta > MaxPermits {
		return p.fail(errTooManyTotal)
	}
	if err := p.check(); err != nil {
		return err
	}

	added, err := p.request(p.scripts.add, delta).do(ctx)
	if err == nil && added == 0 {
		err = p.fail(errTooManyTotal)
	}
	return err
}

// Available returns the number of free permits: 0 if they were never set, negative if more are held than exist. It may
// have changed since it was read.
func (p *pool) Available(ctx context.Context) (int64, error) {
	return p.query(ctx, p.scripts.available)
}

var leasedKind = &kind{
	name:    "leased",
	acquire: newScript(lua("semaphore", "leased", "leased_acquire")),
	renew:   newScript(lua("semaphore", "leased", "leased_renew")),
	release: newScript(lua("semaphore", "leased", "leased_release")),
}

var leasedPool = newPoolScripts(lua("semaphore", "leased"))

// A LeasedSemaphore is a [Semaphore] whose permits have a lease, as a [Hold] has: they are returned by themselves when
// their holder has died. Permits are released only by the [Permits] of the Acquire that took them, all at once.
//
// A waiter gets its permits within 100 ms after the leases that it needs have ended. If the semaphore's key is deleted,
// all permits held are lost.
type LeasedSemaphore struct{ pool }

// LeasedSemaphore returns the leased semaphore with that name, which must not be empty. It sends no command.
func (c *Client) LeasedSemaphore(name string) *LeasedSemaphore {
	return &LeasedSemaphore{pool{c.newNamed(leasedKind, name, holdersKey), leasedPool}}
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
