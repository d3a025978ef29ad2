package auth

import (
	"context"
	"slices"
	"sync"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

const (
	revocationPoll  = 500 * time.Millisecond
	revocationPurge = time.Minute
	// revocationOverlap is the period that each poll reads again. Sequence numbers are assigned before their
	// transactions commit, so a smaller one can appear after a larger one. No transaction lasts this long.
	revocationOverlap = 10 * time.Second
)

// Revocation is one ended session whose access tokens must be refused until KeepUntil.
type Revocation struct {
	Seq       int64 `gorm:"primaryKey"`
	SessionID string
	KeepUntil time.Time
}

// NewRevocation returns the revocation of a session that ends at now. It outlasts every token.
func NewRevocation(sessionID string, now time.Time) Revocation {
	return Revocation{SessionID: sessionID, KeepUntil: now.Add(SeedTTL)}
}

// equal reports whether two reads returned the same row. A session that was ended twice has two rows.
func (r Revocation) equal(other Revocation) bool {
	return r.Seq == other.Seq && r.SessionID == other.SessionID && r.KeepUntil.Equal(other.KeepUntil)
}

// RevocationStore is the list of ended sessions in the database, which all instances share.
type RevocationStore interface {
	// RevocationsAfter returns the revocations with larger sequence numbers that apply at now, in ascending order.
	RevocationsAfter(ctx context.Context, seq int64, now time.Time) ([]Revocation, error)
	// PurgeSessions deletes a batch of the revocations and sessions that have expired, and of the login requests of
	// more than a day ago, and returns their number. 0 means that none is left.
	PurgeSessions(ctx context.Context, now time.Time) (int, error)
}

// Revocations is this process's copy of the list of ended sessions. Checking a session is a map lookup; the database is
// polled twice a second, whatever the load. While the database is unavailable the copy stays unchanged, but no session
// can be ended then either. Revocations is safe for concurrent use, except that Load must not run concurrently.
type Revocations struct {
	store RevocationStore
	now   func() time.Time

	mu sync.RWMutex
	// Session id -> keep until.
	ended map[string]time.Time
	// By session id.
	watchers map[string][]*watcher

	// The rest is used by Load only.

	// The row at which the next poll begins.
	from Revocation
	// The next value of from.
	nextMark Revocation
	// When from last changed.
	markedAt time.Time
}

type watcher struct{ revoked func() }

// NewRevocations returns an empty copy. Call Load before serving requests; its Tasks run afterwards.
func NewRevocations(store RevocationStore, now func() time.Time) *Revocations {
	return &Revocations{
		store:    store,
		now:      now,
		ended:    map[string]time.Time{},
		watchers: map[string][]*watcher{},
	}
}

// Has reports whether the session is in the list.
func (r *Revocations) Has(sessionID string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ended := r.ended[sessionID]
	return ended
}

// Add adds sessions that ended at now to the copy before the next poll finds them, all at once, and then calls their watchers.
func (r *Revocations) Add(now time.Time, sessionIDs ...string) {
	list := make([]Revocation, len(sessionIDs))
	for i, id := range sessionIDs {
		list[i] = NewRevocation(id, now)
	}
	r.add(list...)
}

// add adds all sessions before it calls the first watcher.
func (r *Revocations) add(list ...Revocation) {
	var ended []*watcher
	r.mu.Lock()
	for _, row := range list {
		r.ended[row.SessionID] = row.KeepUntil
		ended = append(ended, r.watchers[row.SessionID]...)
		delete(r.watchers, row.SessionID)
	}
	r.mu.Unlock()

	for _, w := range ended {
		w.revoked()
	}
}

// watch calls revoked once when the session ends: before Add returns, or in the poll that finds it. revoked must not
// block. The returned function ends the watch; revoked may still be running then. Error: ErrUnauthenticated if the session
// has ended already.
func (r *Revocations) watch(sessionID string, revoked func()) (func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ended := r.ended[sessionID]; ended {
		return nil, domain.ErrUnauthenticated
	}
	w := &watcher{revoked}
	r.watchers[sessionID] = append(r.watchers[sessionID], w)
	return func() { r.unwatch(sessionID, w) }, nil
}

func (r *Revocations) unwatch(sessionID string, w *watcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	same := slices.DeleteFunc(r.watchers[sessionID], func(other *watcher) bool { return other == w })
	if len(same) == 0 {
		delete(r.watchers, sessionID)
		return
	}
	r.watchers[sessionID] = same
}

// Load reads the rows that were added since the last call, with an overlap of revocationOverlap. It reads the whole
// list if the row where it begins has changed or is missing: the row was purged, or a replica without the last rows
// became the primary and assigns their numbers again.
func (r *Revocations) Load(ctx context.Context) error {
	ctx, cancel := withTimeout(ctx)
	defer cancel()

	now := r.now()
	rows, err := r.store.RevocationsAfter(ctx, r.from.Seq-1, now)
	if err == nil && r.from.Seq > 0 && (len(rows) == 0 || !rows[0].equal(r.from)) {
		r.from = Revocation{}
		r.nextMark = Revocation{}
		r.markedAt = now
		rows, err = r.store.RevocationsAfter(ctx, 0, now)
	}

	if err != nil {
		return err
	}

	var last Revocation
	if len(rows) > 0 {
		last = rows[len(rows)-1]
		r.add(rows...)
	}

	if now.Sub(r.markedAt) >= revocationOverlap {
		r.from = r.nextMark
		r.nextMark = last
		r.markedAt = now
	}

	return nil
}

// Tasks poll the list and purge expired rows.
func (r *Revocations) Tasks() []loop.Task {
	return []loop.Task{
		loop.Every(revocationPoll, "poll ended sessions", r.Load),
		loop.Every(revocationPurge, "purge ended sessions", r.purge),
	}
}

func withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 2*time.Second)
}

// purge deletes sessions whose last token has expired, from the copy and from the database. It deletes small batches,
// so that requests do not wait for its locks.
func (r *Revocations) purge(ctx context.Context) error {
	now := r.now()
	r.mu.Lock()
	for id, until := range r.ended {
		if now.After(until) {
			delete(r.ended, id)
		}
	}
	r.mu.Unlock()

	return loop.InBatches(ctx, func(ctx context.Context) (int, error) { return r.store.PurgeSessions(ctx, now) })
}
