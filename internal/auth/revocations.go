package auth

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	revocationPoll  = 500 * time.Millisecond
	revocationPurge = time.Minute
	// revocationOverlap is how far each poll reads back: sequence numbers are handed out before their
	// transactions commit, so a smaller one can appear after a larger one. No transaction lasts this long.
	revocationOverlap = 10 * time.Second
)

// Revocation is one ended session whose access tokens must be refused until KeepUntil.
type Revocation struct {
	Seq       int64
	SessionID string
	KeepUntil time.Time
}

// is says whether two reads returned the same row. A session that was ended twice has two.
func (r Revocation) is(other Revocation) bool {
	return r.Seq == other.Seq && r.SessionID == other.SessionID && r.KeepUntil.Equal(other.KeepUntil)
}

// RevocationStore is the list of ended sessions in the database, which every instance reads.
type RevocationStore interface {
	// RevocationsAfter returns the rows with larger numbers that are still needed, in their order.
	RevocationsAfter(ctx context.Context, seq int64, now time.Time) ([]Revocation, error)
	// PurgeSessions deletes some of the revocations that nobody needs any more and of the sessions that are over,
	// and says how many: 0 when there are none left.
	PurgeSessions(ctx context.Context, now time.Time) (int, error)
}

// Revocations is this process's copy of the list of ended sessions. Checking a token costs a look into a map;
// the database is asked twice a second, whatever the load. While it cannot be asked the copy stays as it is:
// nobody can log out then either. It is safe for concurrent use.
type Revocations struct {
	store RevocationStore
	now   func() time.Time
	log   *slog.Logger

	mu    sync.RWMutex
	ended map[string]time.Time // session id -> keep until

	// Used by the poller only.
	from     Revocation // the row from which on the list is read
	nextMark Revocation // what from becomes at the next mark
	markedAt time.Time
}

// NewRevocations makes an empty copy; call Load before serving and Run afterwards.
func NewRevocations(store RevocationStore, now func() time.Time, log *slog.Logger) *Revocations {
	return &Revocations{store: store, now: now, log: log, ended: map[string]time.Time{}}
}

// Has says whether the session has ended.
func (r *Revocations) Has(sessionID string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ended := r.ended[sessionID]
	return ended
}

// Add notes an ended session without waiting for the next poll.
func (r *Revocations) Add(sessionID string, keepUntil time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[sessionID] = keepUntil
}

// Load reads what was added to the list since the last call, and a little more (revocationOverlap). It reads the whole
// list if the row where it begins is not as it was: the row was purged, or a replica that lacks the last rows became the
// primary and gives their numbers to others.
func (r *Revocations) Load(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	now := r.now()
	rows, err := r.store.RevocationsAfter(ctx, r.from.Seq-1, now)
	if err == nil && r.from.Seq > 0 && (len(rows) == 0 || !rows[0].is(r.from)) {
		r.from, r.nextMark, r.markedAt = Revocation{}, Revocation{}, now
		rows, err = r.store.RevocationsAfter(ctx, 0, now)
	}
	if err != nil {
		return err
	}
	var last Revocation
	r.mu.Lock()
	for _, row := range rows {
		r.ended[row.SessionID] = row.KeepUntil
		last = row
	}
	r.mu.Unlock()
	if now.Sub(r.markedAt) >= revocationOverlap {
		r.from, r.nextMark, r.markedAt = r.nextMark, last, now
	}
	return nil
}

// Run polls until ctx ends, and clears away what nobody needs any more.
func (r *Revocations) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { r.every(ctx, revocationPoll, "read the list of ended sessions", r.Load) })
	wg.Go(func() { r.every(ctx, revocationPurge, "clear away ended sessions", r.purge) })
	wg.Wait()
}

// every calls f until ctx ends, and logs when it begins to fail and when it works again, not each time in between.
func (r *Revocations) every(ctx context.Context, d time.Duration, what string, f func(context.Context) error) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := f(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			r.log.Warn("cannot "+what, "err", err)
		case err == nil && failing:
			r.log.Info("works again: " + what)
		}
		failing = err != nil
	}
}

// bounded gives one transaction of the background its time.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 2*time.Second)
}

// purge forgets sessions whose last token has expired, here and in the database: there in small pieces, so that
// buyers need not wait for it.
func (r *Revocations) purge(ctx context.Context) error {
	now := r.now()
	r.mu.Lock()
	for id, until := range r.ended {
		if now.After(until) {
			delete(r.ended, id)
		}
	}
	r.mu.Unlock()
	for {
		n, err := r.purgeSome(ctx, now)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (r *Revocations) purgeSome(ctx context.Context, now time.Time) (int, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return r.store.PurgeSessions(ctx, now)
}
