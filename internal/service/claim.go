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
	Fingerprint [32]byte // of what the request says: another one under the same key is ErrIdempotencyMismatch
}

// Answer is what a caller is told, in the form in which it is kept and repeated.
type Answer struct {
	Status      int
	Location    string
	ContentType string
	Body        []byte
	// Transient says that it only asks to try again: it is not kept, and the key is free for that.
	Transient  bool
	RetryAfter string // of a transient answer
}

// Claim is a run's hold of a key. It travels in the context (ClaimOf) from the request to the transaction.
//
// # How an effect is had once
//
// A run can end without an answer: its process died, or the database did not tell what became of the commit. The next
// request with the key then takes over and runs again, with Again set, perhaps while the first commit still lands. So
// whatever serves a POST must have its effect once:
//
//   - An effect in one transaction of the database (a voucher made, stock changed, an order cancelled, paid, redeemed):
//     the repo method uses Store.writeOnce instead of Store.write, passes on its ctx, and returns the id that the
//     request is about. If an earlier run had the effect already, nothing is changed and the error is a
//     *DoneBeforeError; the service method then reads the object of that id and returns it as if it had just changed
//     it (DoneBefore; see Vouchers.Create, Orders.Cancel). Steps after the transaction are taken again: they must bear it.
//     One call of writeOnce a request: later transactions of the same request use write.
//   - An order that is placed has no claim: its key is stored with it (RequestKey, Orders.PlaceOnce).
//   - An effect elsewhere: Note what it is about before it, and recognise it when Again is set (see DeadLetters).
//
// A claim belongs to one request; it is not for concurrent use.
type Claim struct {
	KeyedRequest
	Token int64 // of this run
	// Again says that an earlier run may have had its effect.
	Again bool
	// ResourceID is the id of what the request is about, as this run or an earlier one noted it; 0: nothing was noted.
	ResourceID int64
	ResourceAt time.Time
	Seen       bool // there is a row of the key

	store KeyStore
}

type claimKey struct{}

// WithClaim returns a context that carries a claim.
func WithClaim(ctx context.Context, c *Claim) context.Context {
	return context.WithValue(ctx, claimKey{}, c)
}

// ClaimOf returns the claim of a request with a key; nil without one.
func ClaimOf(ctx context.Context) *Claim {
	c, _ := ctx.Value(claimKey{}).(*Claim)
	return c
}

// Note writes down what the request is about, before it happens. Errors: ErrOrderInProgress (the key is another run's
// by now, and this one must stop), ErrUnavailable.
func (c *Claim) Note(ctx context.Context, id int64, at time.Time) error {
	c.ResourceID, c.ResourceAt = id, at
	return c.store.NoteResources(ctx, []*Claim{c})[0]
}

// DoneBeforeError says that an earlier run of the same request had the effect; nothing was changed now.
type DoneBeforeError struct {
	ResourceID int64
}

func (e *DoneBeforeError) Error() string { return "an earlier run of this request has done it" }

// DoneBefore says whether err is a *DoneBeforeError, and what the earlier run returned as its resource.
func DoneBefore(err error) (resourceID int64, ok bool) {
	var done *DoneBeforeError
	if !errors.As(err, &done) {
		return 0, false
	}
	return done.ResourceID, true
}

// KeyState is what became of an attempt to claim a key.
type KeyState struct {
	// Err is nil if the key was claimed or has an answer. Errors: ErrIdempotencyMismatch, ErrOrderInProgress (another
	// run holds it), *RateLimitedError (the user has MaxKeys), ErrUnavailable.
	Err        error
	Answer     *Answer // the kept one
	Runs       int     // of this request, with the one that claimed it now
	ResourceID int64   // what is noted
	ResourceAt time.Time
}

// KeptAnswer is an answer on its way to the store. A transient one gives the key free.
type KeptAnswer struct {
	Claim  *Claim
	Answer Answer
}

// KeyStore keeps keys and their answers. Errors are those of this package.
type KeyStore interface {
	// ClaimKeys claims the key of each claim under its token, for KeyLease. What a claim that is the first of its key
	// has as its resource is noted with it. A key whose life is over is as good as new.
	ClaimKeys(ctx context.Context, claims []*Claim) []KeyState
	// KeepAnswers stores the answer of each claim. Errors: ErrOrderInProgress (the key is another run's by now),
	// ErrUnavailable.
	KeepAnswers(ctx context.Context, answers []KeptAnswer) []error
	// NoteResources stores the resource of each claim. Errors: as KeepAnswers.
	NoteResources(ctx context.Context, claims []*Claim) []error
	// PurgeKeys deletes some keys whose life is over, and says how many it found.
	PurgeKeys(ctx context.Context) (int, error)
}
