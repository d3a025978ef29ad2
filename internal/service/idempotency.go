package service

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"seckill/internal/batch"
)

const (
	// KeyLife is how long a key is kept, from its first use on.
	KeyLife = 24 * time.Hour
	// KeyLifeOfError is how long a key is kept whose answer is an error: long enough for retries, and short because
	// errors cost a caller nothing.
	KeyLifeOfError = 10 * time.Minute
	// MaxKeys bounds the keys of a user that are kept at once. Orders do not count: their keys are theirs.
	MaxKeys = 1000
	// KeyLease is for how long a run holds its key: well above keyedTimeout and keepTimeout together, so that nobody
	// takes over while it works. After it, the run is taken for dead. The database's clock counts.
	KeyLease = 10 * time.Second

	// keyedTimeout bounds the claim of a key, the wait for another run of it, and the run, all together; keepTimeout
	// what comes afterwards. The sum leaves room in the 5 s within which a caller has an answer.
	keyedTimeout = 3300 * time.Millisecond
	keepTimeout  = time.Second
	// keyPoll is how often a run that another process is at is asked for.
	keyPoll = 100 * time.Millisecond

	keyPurge      = time.Minute
	keyPurgePause = 20 * time.Millisecond
	purgeTimeout  = 2 * time.Second
)

// IdempotencyConfig is what Idempotency needs.
type IdempotencyConfig struct {
	Store KeyStore
	// Observe is told how each request with a key went: "new", "takeover", "replayed", "mismatch", "in_progress",
	// "unavailable", "lost" (the run outlived its lease). It may be nil, and must be safe for concurrent use and quick.
	Observe func(outcome string)
	// Failed is told of a purge that failed. It may be nil.
	Failed func(error)
}

// Idempotency runs requests that carry a key: the same request has one effect and one answer, however often, wherever
// and however concurrently it is sent. The truth is in the database. It is safe for concurrent use.
type Idempotency struct {
	cfg    IdempotencyConfig
	claims *batch.Batcher[*Claim, KeyState]
	keeps  *batch.Batcher[KeptAnswer, error]

	mu      sync.Mutex
	running map[KeyedRequest]*keyedRun // in this process
}

// keyedRun is a request at work. Those who send the same one meanwhile get its answer.
type keyedRun struct {
	done   chan struct{} // closed when answer and err are there
	answer Answer
	err    error
}

// NewIdempotency makes the service.
func NewIdempotency(cfg IdempotencyConfig) *Idempotency {
	if cfg.Observe == nil {
		cfg.Observe = func(string) {}
	}
	if cfg.Failed == nil {
		cfg.Failed = func(error) {}
	}
	i := &Idempotency{cfg: cfg, running: map[KeyedRequest]*keyedRun{}}
	i.claims = batch.New(batch.Config[*Claim, KeyState]{Run: cfg.Store.ClaimKeys, Fail: func(err error) KeyState { return KeyState{Err: batchError(err)} }})
	i.keeps = batch.New(batch.Config[KeptAnswer, error]{Run: cfg.Store.KeepAnswers, Fail: batchError})
	return i
}

// errNoAnswer is what the twins of a run hear that panicked.
var errNoAnswer = errors.New("the run of this request has no answer")

// Once returns the answer of the request, which run gives unless it was given before (replayed). run gets a context
// that carries the claim, has a deadline, and does not end when the caller hangs up. An answer that is not kept is not
// given, transient ones aside: then the error is ErrUnavailable, or ErrOrderInProgress for a run that outlived its
// lease, and trying again leads to the answer.
//
// Errors: ErrIdempotencyMismatch, ErrOrderInProgress (the first run did not end in time), *RateLimitedError (the user has
// MaxKeys), ErrOverloaded, ErrUnavailable.
func (i *Idempotency) Once(
	ctx context.Context, r KeyedRequest, run func(context.Context) Answer,
) (a Answer, replayed bool, err error) {
	i.mu.Lock()
	if twin := i.running[r]; twin != nil {
		i.mu.Unlock()
		select {
		case <-twin.done:
			if twin.err == nil {
				i.cfg.Observe("replayed")
			}
			return twin.answer, true, twin.err
		case <-ctx.Done():
			return Answer{}, false, ErrOrderInProgress
		}
	}
	mine := &keyedRun{done: make(chan struct{}), err: errNoAnswer}
	i.running[r] = mine
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		delete(i.running, r)
		i.mu.Unlock()
		close(mine.done)
	}()
	mine.answer, replayed, mine.err = i.once(ctx, r, run)
	return mine.answer, replayed, mine.err
}

func (i *Idempotency) once(
	ctx context.Context, r KeyedRequest, run func(context.Context) Answer,
) (a Answer, replayed bool, err error) {
	ctx = context.WithoutCancel(ctx)
	work, cancel := context.WithTimeout(ctx, keyedTimeout)
	defer cancel()
	c := &Claim{KeyedRequest: r, Token: rand.Int64(), store: i.cfg.Store}
	kept, err := i.claim(work, c)
	switch {
	case errors.Is(err, ErrUnavailable):
		// The claim may have landed all the same. It must not keep the key from the next try until its lease ends.
		_ = i.keep(ctx, c, Answer{Transient: true})
		return Answer{}, false, err
	case err != nil:
		return Answer{}, false, err
	case kept != nil:
		i.cfg.Observe("replayed")
		return *kept, true, nil
	}
	a.Transient = true // what it is if run panics
	defer func() {
		if keepErr := i.keep(ctx, c, a); keepErr != nil && !a.Transient {
			a, err = Answer{}, keepErr
		}
	}()
	a = run(WithClaim(work, c))
	return a, false, nil
}

// claim returns the kept answer, or nil when the claim is held.
func (i *Idempotency) claim(ctx context.Context, c *Claim) (*Answer, error) {
	for {
		s := i.claims.DoContext(ctx, 0, c)
		switch {
		case s.Err == nil && s.Answer == nil:
			c.Again, c.ResourceID, c.ResourceAt = s.Runs > 1, s.ResourceID, s.ResourceAt
			if c.Again {
				i.cfg.Observe("takeover")
			} else {
				i.cfg.Observe("new")
			}
			return nil, nil
		case s.Err != nil && c.Seen && ctx.Err() != nil: // the last look had no time left
			i.observe(ErrOrderInProgress)
			return nil, ErrOrderInProgress
		case !errors.Is(s.Err, ErrOrderInProgress):
			i.observe(s.Err)
			return s.Answer, s.Err
		}
		c.Seen = true
		select {
		case <-ctx.Done():
			i.observe(s.Err)
			return nil, s.Err
		case <-time.After(keyPoll):
		}
	}
}

// observe counts an error.
func (i *Idempotency) observe(err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrIdempotencyMismatch):
		i.cfg.Observe("mismatch")
	case errors.Is(err, ErrOrderInProgress):
		i.cfg.Observe("in_progress")
	default:
		i.cfg.Observe("unavailable")
	}
}

// keep stores the answer, or gives the key free.
func (i *Idempotency) keep(ctx context.Context, c *Claim, a Answer) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	err := i.keeps.DoContext(ctx, 0, KeptAnswer{Claim: c, Answer: a})
	if errors.Is(err, ErrOrderInProgress) {
		i.cfg.Observe("lost")
	}
	return err
}

// Run clears away keys whose life is over, until ctx ends: in small pieces, so that buyers need not wait for it. Any
// number of processes may do it.
func (i *Idempotency) Run(ctx context.Context) {
	tick := time.NewTicker(keyPurge)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := i.purge(ctx); err != nil && ctx.Err() == nil {
			i.cfg.Failed(err)
		}
	}
}

func (i *Idempotency) purge(ctx context.Context) error {
	for {
		n, err := i.purgeSome(ctx)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(keyPurgePause):
		}
	}
}

func (i *Idempotency) purgeSome(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	return i.cfg.Store.PurgeKeys(ctx)
}
