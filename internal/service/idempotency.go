package service

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"seckill/internal/batch"
	"seckill/internal/domain"
)

const (
	// KeyLife is the lifetime of a key from its first use.
	KeyLife = 24 * time.Hour
	// KeyLifeOfError is the lifetime of a key whose answer is an error. It is long enough for retries, and short
	// because a client can produce any number of errors for free.
	KeyLifeOfError = 10 * time.Minute
	// MaxKeys bounds the stored keys of a user. Keys that are stored with orders do not count.
	MaxKeys = 1000
	// KeyLease is the duration of an idempotency lease by the database's clock. It is well above keyedTimeout plus
	// storeTimeout, so a run keeps its key while it works. When it ends, the run counts as dead and may be taken over.
	KeyLease = 10 * time.Second

	// keyedTimeout bounds the claim of a key, the wait for its run in another process, and the run, in total.
	// storeTimeout bounds storing the answer. Their sum is below the 5 s within which a caller has an answer.
	keyedTimeout = 3300 * time.Millisecond
	storeTimeout = time.Second
	// keyPoll is the interval between polls for the answer of a run in another process.
	keyPoll = 100 * time.Millisecond

	purgeEvery   = time.Minute
	purgePause   = 20 * time.Millisecond // between two batches of a purge
	purgeTimeout = 2 * time.Second       // of a batch
)

// IdempotencyConfig configures an Idempotency.
type IdempotencyConfig struct {
	Store KeyStore
	// Observe receives the outcome of each keyed request: "new", "takeover", "replayed", "mismatch", "in_progress",
	// "unavailable" or "lost" (the run outlived its lease). It may be nil, must be safe for concurrent use, and must
	// not block.
	Observe func(outcome string)
	// Failed receives the error of a failed purge. It may be nil.
	Failed func(error)
}

// Idempotency runs keyed requests. Repetitions of a request have one effect and one answer, even if they run
// concurrently or on different instances. The database decides which run has the key. Idempotency is safe for
// concurrent use.
type Idempotency struct {
	cfg     IdempotencyConfig
	claims  *batch.Batcher[*Claim, KeyState]
	answers *batch.Batcher[KeptAnswer, error]

	mu      sync.Mutex
	running map[KeyedRequest]*keyedRun // in this process
}

// keyedRun is a running request. In-flight duplicates share its answer.
//
// golang.org/x/sync/singleflight does not fit. DoChan would run the request in another goroutine, where a panic ends
// the process instead of reaching the recovery of the HTTP server, and Do gives a duplicate no way to stop waiting.
type keyedRun struct {
	done   chan struct{} // closed after answer and err are set
	answer Answer
	err    error
}

// NewIdempotency returns an Idempotency. Run must be started to purge old keys.
func NewIdempotency(cfg IdempotencyConfig) *Idempotency {
	if cfg.Observe == nil {
		cfg.Observe = func(string) {}
	}
	if cfg.Failed == nil {
		cfg.Failed = func(error) {}
	}
	i := &Idempotency{cfg: cfg, running: map[KeyedRequest]*keyedRun{}}
	i.claims = batch.New(batch.Config[*Claim, KeyState]{Run: cfg.Store.ClaimKeys, Fail: func(err error) KeyState { return KeyState{Err: domain.BatchError(err)} }})
	i.answers = batch.New(batch.Config[KeptAnswer, error]{Run: cfg.Store.KeepAnswers, Fail: domain.BatchError})
	return i
}

// errRunPanicked is the result of the in-flight duplicates of a run that panicked.
var errRunPanicked = errors.New("the run of this request panicked")

// Once returns the answer of a request. It calls run, unless the request already has an answer (replayed). The context
// of run carries the claim, has a deadline, and stays valid if the caller disconnects. Once returns an answer only
// after storing it, except transient ones. If storing fails, the error is ErrUnavailable, or ErrOrderInProgress for a
// run that outlived its lease, and a retry leads to the answer.
//
// Errors: ErrIdempotencyMismatch, ErrOrderInProgress (an earlier run did not end in time), *RateLimitedError (the user
// has MaxKeys keys), ErrOverloaded, ErrUnavailable.
func (i *Idempotency) Once(
	ctx context.Context, r KeyedRequest, run func(context.Context) Answer,
) (a Answer, replayed bool, err error) {
	i.mu.Lock()
	if first := i.running[r]; first != nil {
		i.mu.Unlock()
		select {
		case <-first.done:
			if first.err == nil {
				i.cfg.Observe("replayed")
			}
			return first.answer, true, first.err
		case <-ctx.Done():
			return Answer{}, false, domain.ErrOrderInProgress
		}
	}
	mine := &keyedRun{done: make(chan struct{}), err: errRunPanicked}
	i.running[r] = mine
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		delete(i.running, r)
		i.mu.Unlock()
		close(mine.done)
	}()
	mine.answer, replayed, mine.err = i.claimAndRun(ctx, r, run)
	return mine.answer, replayed, mine.err
}

// claimAndRun is Once for the first of the concurrent requests in this process.
func (i *Idempotency) claimAndRun(
	ctx context.Context, r KeyedRequest, run func(context.Context) Answer,
) (a Answer, replayed bool, err error) {
	ctx = context.WithoutCancel(ctx)
	work, cancel := context.WithTimeout(ctx, keyedTimeout)
	defer cancel()
	c := &Claim{KeyedRequest: r, Token: rand.Int64(), store: i.cfg.Store}
	stored, err := i.claim(work, c)
	switch {
	case errors.Is(err, domain.ErrUnavailable):
		// The claim may still be stored. Release it, so that a retry need not wait for the end of the lease.
		_ = i.saveAnswer(ctx, c, Answer{Transient: true})
		return Answer{}, false, err
	case err != nil:
		return Answer{}, false, err
	case stored != nil:
		i.cfg.Observe("replayed")
		return *stored, true, nil
	}
	a.Transient = true // releases the key if run panics
	defer func() {
		if saveErr := i.saveAnswer(ctx, c, a); saveErr != nil && !a.Transient {
			a, err = Answer{}, saveErr
		}
	}()
	a = run(WithClaim(work, c))
	return a, false, nil
}

// claim claims the key of c, or returns the stored answer. While another process runs the request, claim polls for its
// answer until ctx ends; the error is then ErrOrderInProgress.
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
		case s.Err != nil && c.Seen && ctx.Err() != nil: // the last poll was cut short
			i.observe(domain.ErrOrderInProgress)
			return nil, domain.ErrOrderInProgress
		case !errors.Is(s.Err, domain.ErrOrderInProgress):
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

// observe reports the outcome of a failed claim.
func (i *Idempotency) observe(err error) {
	switch {
	case err == nil:
	case errors.Is(err, domain.ErrIdempotencyMismatch):
		i.cfg.Observe("mismatch")
	case errors.Is(err, domain.ErrOrderInProgress):
		i.cfg.Observe("in_progress")
	default:
		i.cfg.Observe("unavailable")
	}
}

// saveAnswer stores the answer, or releases the key if the answer is transient.
func (i *Idempotency) saveAnswer(ctx context.Context, c *Claim, a Answer) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := i.answers.DoContext(ctx, 0, KeptAnswer{Claim: c, Answer: a})
	if errors.Is(err, domain.ErrOrderInProgress) {
		i.cfg.Observe("lost")
	}
	return err
}

// Run purges keys whose lifetime is over, once a minute until ctx ends. It deletes small batches, so that requests do
// not wait for its locks. Several instances may run it.
func (i *Idempotency) Run(ctx context.Context) {
	tick := time.NewTicker(purgeEvery)
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

// purge deletes batches until no key is left to delete.
func (i *Idempotency) purge(ctx context.Context) error {
	for {
		n, err := i.purgeBatch(ctx)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(purgePause):
		}
	}
}

func (i *Idempotency) purgeBatch(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	return i.cfg.Store.PurgeKeys(ctx)
}
