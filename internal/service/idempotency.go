package service

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

const (
	// keyedTimeout bounds the claim of a key, the wait for its run in another process, and the run, in total.
	// storeTimeout bounds storing the answer. Their sum is below the 5 s within which a caller has an answer, and far
	// below domain.KeyLease.
	keyedTimeout = 3300 * time.Millisecond
	storeTimeout = time.Second
	// claimTimeout bounds one claim.
	claimTimeout = 2 * time.Second
	// keyPoll is the interval between polls for the answer of a run in another process.
	keyPoll = 100 * time.Millisecond

	purgeEvery = time.Minute
)

// KeyStore stores keys and their answers. Its errors are those of package domain.
type KeyStore interface {
	// ClaimKey claims the key of c under its token for domain.KeyLease. A key whose lifetime is over counts as new.
	ClaimKey(ctx context.Context, c *domain.Claim) domain.KeyState
	// KeepAnswer stores the answer of c. A transient answer is not stored and releases the key. Errors:
	// ErrOrderInProgress (another run has taken over the key), ErrUnavailable.
	KeepAnswer(ctx context.Context, c *domain.Claim, a domain.Answer) error
	// PurgeKeys deletes a batch of keys whose lifetime is over, and returns how many it found.
	PurgeKeys(ctx context.Context) (int, error)
}

// Idempotency runs keyed requests. Repetitions of a request have one effect and one answer, even if they run
// concurrently or on different instances. The database decides which run has the key. Idempotency is safe for
// concurrent use.
type Idempotency struct {
	Store KeyStore
	// Observe receives the outcome of each keyed request: "new", "takeover", "replayed", "mismatch", "in_progress",
	// "unavailable" or "lost" (the run outlived its lease). It must be safe for concurrent use, and must not block.
	Observe func(outcome string)
}

// Do returns the answer of a request. It calls run, unless the request already has an answer (replayed). The context
// of run has a deadline and stays valid if the caller disconnects. Do returns an answer only after storing it, except
// transient ones. If storing fails, the error is ErrUnavailable, or ErrOrderInProgress for a run that exceeded its
// lease, and a retry leads to the answer.
//
// Errors: ErrIdempotencyMismatch, ErrOrderInProgress (an earlier run did not end in time), *RateLimitedError (the user
// has MaxKeys keys), ErrOverloaded, ErrUnavailable.
func (i *Idempotency) Do(
	ctx context.Context, r domain.KeyedRequest, run func(context.Context, *domain.Claim) domain.Answer,
) (a domain.Answer, replayed bool, err error) {
	ctx = context.WithoutCancel(ctx)
	work, cancel := context.WithTimeout(ctx, keyedTimeout)
	defer cancel()

	c := &domain.Claim{KeyedRequest: r, Token: rand.Int64()}
	stored, err := i.claim(work, c)
	switch {
	case errors.Is(err, domain.ErrUnavailable):
		// The claim may still be stored. Release it, so that a retry need not wait for the end of the lease.
		_ = i.saveAnswer(ctx, c, domain.Answer{Transient: true})
		return domain.Answer{}, false, err
	case err != nil:
		return domain.Answer{}, false, err
	case stored != nil:
		i.Observe("replayed")
		return *stored, true, nil
	}

	// Releases the key if run panics.
	a.Transient = true
	defer func() {
		if saveErr := i.saveAnswer(ctx, c, a); saveErr != nil && !a.Transient {
			a = domain.Answer{}
			err = saveErr
		}
	}()

	a = run(work, c)
	return a, false, nil
}

// claim claims the key of c, or returns the stored answer. While another run of the request has it, claim polls for its
// answer until ctx ends; the error is then ErrOrderInProgress.
func (i *Idempotency) claim(ctx context.Context, c *domain.Claim) (*domain.Answer, error) {
	for {
		s := i.claimOnce(ctx, c)
		switch {
		case s.Err == nil && s.Answer == nil:
			c.Again = s.Runs > 1
			c.ResourceID = s.ResourceID

			if c.Again {
				i.Observe("takeover")
			} else {
				i.Observe("new")
			}

			return nil, nil
		case s.Err != nil && c.Seen && ctx.Err() != nil:
			// The last poll was cut short.
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

func (i *Idempotency) claimOnce(ctx context.Context, c *domain.Claim) domain.KeyState {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	return i.Store.ClaimKey(ctx, c)
}

func (i *Idempotency) observe(err error) {
	if err != nil {
		i.Observe(keyOutcome(err, "unavailable"))
	}
}

func keyOutcome(err error, other string) string {
	switch {
	case errors.Is(err, domain.ErrIdempotencyMismatch):
		return "mismatch"
	case errors.Is(err, domain.ErrOrderInProgress):
		return "in_progress"
	case errors.Is(err, domain.ErrUnavailable):
		return "unavailable"
	}
	return other
}

func (i *Idempotency) saveAnswer(ctx context.Context, c *domain.Claim, a domain.Answer) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := i.Store.KeepAnswer(ctx, c, a)
	if errors.Is(err, domain.ErrOrderInProgress) {
		i.Observe("lost")
	}
	return err
}

// Task purges keys whose lifetime is over. It deletes small batches, so that requests do not wait for its locks. Several
// instances may run it.
func (i *Idempotency) Task() loop.Task {
	return loop.Every(purgeEvery, "delete expired idempotency keys", func(ctx context.Context) error {
		return loop.InBatches(ctx, i.Store.PurgeKeys)
	})
}
