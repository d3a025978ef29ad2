package service

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

// RevocationStore is the list of ended sessions in the database, which every instance reads.
type RevocationStore interface {
	RevocationsAfter(ctx context.Context, seq int64, now time.Time) ([]Revocation, error)
	// PurgeSessions deletes the revocations nobody needs any more and the sessions that are over.
	PurgeSessions(ctx context.Context, now time.Time) error
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
	from, high int64     // read rows after from; high is the largest seen
	markedAt   time.Time // when from was last moved up to high
	nextMark   int64     // what from becomes at the next mark
	failing    bool
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

// Load reads what was added to the list since the last call, and a little more (revocationOverlap).
func (r *Revocations) Load(ctx context.Context) error {
	now := r.now()
	rows, err := r.store.RevocationsAfter(ctx, r.from, now)
	if err != nil {
		return err
	}
	r.mu.Lock()
	for _, row := range rows {
		r.ended[row.SessionID] = row.KeepUntil
		r.high = max(r.high, row.Seq)
	}
	r.mu.Unlock()
	if now.Sub(r.markedAt) >= revocationOverlap {
		r.from, r.nextMark, r.markedAt = r.nextMark, r.high, now
	}
	return nil
}

// Run polls until ctx ends, and clears away what nobody needs any more.
func (r *Revocations) Run(ctx context.Context) {
	poll, purge := time.NewTicker(revocationPoll), time.NewTicker(revocationPurge)
	defer poll.Stop()
	defer purge.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			r.report(r.timed(ctx, r.Load))
		case <-purge.C:
			r.report(r.timed(ctx, r.purge))
		}
	}
}

func (r *Revocations) timed(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return f(ctx)
}

// report logs when reading begins to fail and when it works again, not each time in between.
func (r *Revocations) report(err error) {
	switch {
	case err != nil && !r.failing:
		r.log.Warn("cannot read the list of ended sessions", "err", err)
	case err == nil && r.failing:
		r.log.Info("the list of ended sessions can be read again")
	}
	r.failing = err != nil
}

// purge forgets sessions whose last token has expired, here and in the database.
func (r *Revocations) purge(ctx context.Context) error {
	now := r.now()
	r.mu.Lock()
	for id, until := range r.ended {
		if now.After(until) {
			delete(r.ended, id)
		}
	}
	r.mu.Unlock()
	return r.store.PurgeSessions(ctx, now)
}
