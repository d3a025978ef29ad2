package service

import (
	"context"
	"errors"
	"time"
)

// KeyedRequest is a request that carries an Idempotency-Key.
type KeyedRequest struct {
	UserID      int64
	Key         string
	Fingerprint [32]byte // hash of the request; a different one under the same key is ErrIdempotencyMismatch
}

// Answer is the response to a keyed request, in the form in which it is stored and replayed.
type Answer struct {
	Status      int
	Location    string
	ContentType string
	Body        []byte
	// Transient marks an answer that only invites a retry. It is not stored, and the key is released for the retry.
	Transient  bool
	RetryAfter string // only with Transient
}

// Claim is the idempotency lease of one run of a keyed request. The context carries it from the request to the
// transaction (ClaimOf).
//
// # Exactly one effect
//
// A run can end without an answer because its process died or because a COMMIT was not answered. The next request with
// the key takes over and runs again with Again set, possibly before the first COMMIT takes effect. Every operation
// behind a POST must therefore have its effect only once:
//
//   - An effect in one database transaction (create a voucher, change stock, cancel, pay or redeem an order): the repo
//     method passes its ctx to Store.writeOnce instead of Store.write, and returns the id of the changed resource. If
//     an earlier run had the effect, nothing changes and the error is a *DoneBeforeError. The service method then reads
//     the resource and returns it as if it had just changed it (DoneBefore; see Vouchers.Create, Orders.Cancel). Steps
//     after the transaction run again, so they must be idempotent. A request calls writeOnce at most once; its later
//     transactions use write.
//   - Placing an order uses no Claim. Its key is stored with the order (RequestKey, Orders.PlaceOnce).
//   - An effect outside the database: call Note before it, and detect it when Again is set (see DeadLetters).
//
// A Claim belongs to one request and is not safe for concurrent use.
type Claim struct {
	KeyedRequest
	Token int64 // identifies this run
	// Again is set on a takeover: an earlier run may have had its effect.
	Again bool
	// ResourceID is the resource that this run or an earlier one recorded with Note, or 0.
	ResourceID int64
	ResourceAt time.Time
	Seen       bool // the store has a row of the key

	store KeyStore
}

type claimKey struct{}

// WithClaim returns a context that carries a claim.
func WithClaim(ctx context.Context, c *Claim) context.Context {
	return context.WithValue(ctx, claimKey{}, c)
}

// ClaimOf returns the claim of a keyed request, or nil for a request without a key.
func ClaimOf(ctx context.Context) *Claim {
	c, _ := ctx.Value(claimKey{}).(*Claim)
	return c
}

// Note stores the resource of the request before its effect. Errors: ErrOrderInProgress (another run has taken over the
// key, so this one must stop), ErrUnavailable.
func (c *Claim) Note(ctx context.Context, id int64, at time.Time) error {
	c.ResourceID, c.ResourceAt = id, at
	return c.store.NoteResources(ctx, []*Claim{c})[0]
}

// DoneBeforeError reports that an earlier run of the same request had the effect. The failed call changed nothing.
type DoneBeforeError struct {
	ResourceID int64
}

func (e *DoneBeforeError) Error() string {
	return "an earlier run of this request has already had its effect"
}

// DoneBefore reports whether err is a *DoneBeforeError, and returns the resource of the earlier run.
func DoneBefore(err error) (resourceID int64, ok bool) {
	var done *DoneBeforeError
	if !errors.As(err, &done) {
		return 0, false
	}
	return done.ResourceID, true
}

// KeyState is the result of an attempt to claim a key.
type KeyState struct {
	// Err is nil if the key was claimed or has an answer. Errors: ErrIdempotencyMismatch, ErrOrderInProgress (another
	// run holds the lease), *RateLimitedError (the user has MaxKeys keys), ErrUnavailable.
	Err        error
	Answer     *Answer // the stored answer; nil if the key was claimed
	Runs       int     // runs of this request so far, including the one that has claimed the key
	ResourceID int64   // stored by Claim.Note; 0 if nothing is
	ResourceAt time.Time
}

// KeptAnswer is an answer to store. A transient answer is not stored and releases the key.
type KeptAnswer struct {
	Claim  *Claim
	Answer Answer
}

// KeyStore stores keys and their answers. Its errors are those of package domain.
type KeyStore interface {
	// ClaimKeys claims the key of each claim under its token for KeyLease. The first claim of a key also stores its
	// resource. A key whose lifetime is over counts as new.
	ClaimKeys(ctx context.Context, claims []*Claim) []KeyState
	// KeepAnswers stores the answer of each claim. Errors: ErrOrderInProgress (another run has taken over the key),
	// ErrUnavailable.
	KeepAnswers(ctx context.Context, answers []KeptAnswer) []error
	// NoteResources stores the resource of each claim. Errors: those of KeepAnswers.
	NoteResources(ctx context.Context, claims []*Claim) []error
	// PurgeKeys deletes a batch of keys whose lifetime is over, and returns how many it found.
	PurgeKeys(ctx context.Context) (int, error)
}
