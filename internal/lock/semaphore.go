package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"
)

// MaxPermits bounds the permits of a semaphore, those that it lacks when
// Available is negative, and the count of a latch: Redis scripts count exactly
// no further than a little beyond.
const MaxPermits = 1 << 50

// unleased is the lease of a claim that takes something without one. A claim
// drops what it gets later than that.
const unleased = MaxLease

var (
	//go:embed lua/semaphore.lua
	semaphoreSource string
	//go:embed lua/semaphore_acquire.lua
	semaphoreAcquire string
	//go:embed lua/semaphore_leave.lua
	semaphoreLeave string
	//go:embed lua/semaphore_release.lua
	semaphoreRelease string
	//go:embed lua/semaphore_set.lua
	semaphoreSet string
	//go:embed lua/semaphore_add.lua
	semaphoreAdd string
	//go:embed lua/semaphore_drain.lua
	semaphoreDrain string
	//go:embed lua/semaphore_available.lua
	semaphoreAvailable string
)

var semaphoreKind = &kind{
	name:    "semaphore",
	acquire: newScript(semaphoreSource + semaphoreAcquire),
	release: newScript(semaphoreSource + semaphoreLeave),
}

var (
	semaphorePool   = newPoolScripts(semaphoreSource)
	releaseScript   = newScript(semaphoreSource + requestSource + semaphoreRelease)
	drainScript     = newScript(semaphoreSource + requestSource + semaphoreDrain)
	errTooFewHeld   = fmt.Errorf("%w: fewer permits are taken than were to be released", ErrNotHeld)
	errTooManyTotal = errors.New("that is more permits than MaxPermits, or lacks more")
)

// A Semaphore has a number of permits in Redis that anybody takes, any number
// at a time, and gives back. It does not know who has them: what a process
// took that died is lost until somebody releases it, and what is given back
// need not have been taken by the same caller. Prefer [LeasedSemaphore] where
// permits should come back by themselves.
//
// Those who wait are let in in the order in which they came. So one who wants
// many is not overtaken for ever by those who want few; the few wait behind
// it, although there may be enough for them. A waiter whose process died delays
// those behind it by 4 to 5 s once.
//
// A semaphore stays in Redis until its key is deleted. Then it has no permits,
// as one that was never set, and what was held of it is void.
//
// Every change is made once, also if a reply is lost: it is then asked for
// again, for at most 10 s. An Acquire is undone instead.
type Semaphore struct{ pool }

// Semaphore returns the semaphore of that name, which may be any text but the
// empty one. It does not talk to the server.
func (c *Client) Semaphore(name string) *Semaphore {
	n := named{c: c, kind: semaphoreKind, name: name, keys: keysOf(c.prefix, semaphoreKind.name, name)}
	return &Semaphore{pool{n, semaphorePool}}
}

// Acquire waits until it has taken n permits, from 1 to MaxPermits, or ctx is
// done. The error then matches both ErrNotAcquired and ctx.Err(), and nothing
// is taken. Other errors are those of [Locker]'s Lock. After one that matches
// ErrUncertain the permits may stay taken, for good if Redis could not be
// reached for 5 s more.
func (s *Semaphore) Acquire(ctx context.Context, n int64) error { return s.acquire(ctx, n, true) }

// TryAcquire takes n permits if that many are free beyond what those want who
// wait already. Otherwise the error matches ErrNotAcquired. ctx bounds the
// asking.
func (s *Semaphore) TryAcquire(ctx context.Context, n int64) error { return s.acquire(ctx, n, false) }

func (s *Semaphore) acquire(ctx context.Context, n int64, wait bool) error {
	if err := s.checkCount(n); err != nil {
		return err
	}
	began := time.Now()
	cl := s.c.newClaim(s.kind, nil, unleased, n)
	cl.keys = requestKeys(s.keys, cl.id)
	_, err := cl.acquire(ctx, wait)
	if err != nil {
		err = s.fail(err)
	}
	if s.c.observe != nil {
		s.c.observe(acquireEvent(s.kind.name, s.name, began, err))
	}
	return err
}

// Release gives n permits back. If fewer are held, by anybody, it changes
// nothing, and the error matches ErrNotHeld.
//
// If ctx ends, or has ended before, the release goes on in the background; if
// it is not done within some 20 ms, the error matches ErrUncertain and
// ctx.Err(). ErrUncertain without the latter means that Redis did not answer
// for 10 s.
func (s *Semaphore) Release(ctx context.Context, n int64) error {
	if err := s.checkCount(n); err != nil {
		return err
	}
	given, err := s.request(releaseScript, n).give(ctx)
	if err == nil && given == 0 {
		err = s.fail(errTooFewHeld)
	}
	if s.c.observe != nil && (err == nil || errors.Is(err, ErrUncertain)) {
		kind := EventReleased
		if err != nil {
			kind = EventUncertain
		}
		s.c.observe(Event{Kind: kind, Lock: s.kind.name, Name: s.name, Err: err}) // nobody knows how long they were held
	}
	return err
}

// Drain takes all permits that are free, and returns how many these were. It
// is not in anybody's turn: those who wait go on waiting.
//
// If ctx ends before the answer comes, the error matches ErrUncertain.
func (s *Semaphore) Drain(ctx context.Context) (int64, error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	return s.request(drainScript).take(ctx)
}

// A pool is what both kinds of semaphore have in common: how many permits there
// are.
type pool struct {
	named
	scripts *poolScripts
}

type poolScripts struct{ set, add, available *script }

// newPoolScripts returns them for a kind that counts as source says.
func newPoolScripts(source string) *poolScripts {
	return &poolScripts{
		set:       newScript(source + requestSource + semaphoreSet),
		add:       newScript(source + requestSource + semaphoreAdd),
		available: newScript(source + semaphoreAvailable),
	}
}

// SetPermits sets how many permits there are, from 1 to MaxPermits, once: it
// returns false, and changes nothing, if they were set or added before.
//
// If ctx ends before the answer comes, the error matches ErrUncertain.
func (p *pool) SetPermits(ctx context.Context, n int64) (bool, error) {
	if err := p.checkCount(n); err != nil {
		return false, err
	}
	set, err := p.request(p.scripts.set, n).take(ctx)
	return set == 1, err
}

// AddPermits changes how many permits there are by delta. If there are then
// fewer than are held, Available is negative, and nobody gets in until as many
// have come back. Adding to a semaphore that was never set sets it.
//
// If ctx ends before the answer comes, the error matches ErrUncertain.
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
	added, err := p.request(p.scripts.add, delta).take(ctx)
	if err == nil && added == 0 {
		err = p.fail(errTooManyTotal)
	}
	return err
}

// Available is how many permits are free: 0 if they were never set, negative if
// more are held than there are. It may have changed by the time it is known.
func (p *pool) Available(ctx context.Context) (int64, error) {
	return p.ask(ctx, p.scripts.available)
}
