package domain

import "time"

const (
	// KeyLife is the lifetime of a key from its first use.
	KeyLife = 24 * time.Hour
	// KeyLifeOfError is the lifetime of a key whose answer is an error. It is long enough for retries, and short
	// because a client can produce any number of errors for free.
	KeyLifeOfError = 10 * time.Minute
	// MaxKeys bounds the stored keys of a user. Keys that are stored with orders do not count.
	MaxKeys = 1000
	// KeyLease is the duration of an idempotency lease by the database's clock. It is well above the time that a run
	// may take, so a run keeps its key while it works. When it ends, the run counts as dead and may be taken over.
	KeyLease = 10 * time.Second
)

// KeyedRequest is a request that carries an Idempotency-Key.
type KeyedRequest struct {
	UserID int64
	Key    string
	// Hash of the request; a different one under the same key is ErrIdempotencyMismatch.
	Fingerprint [32]byte
}

// Answer is the response to a keyed request, in the form in which it is stored and replayed.
type Answer struct {
	Status      int
	Location    string
	ContentType string
	Body        []byte
	// Transient marks an answer that only invites a retry. It is not stored, and the key is released for the retry.
	Transient bool `gorm:"-"`
	// Only with Transient.
	RetryAfter string `gorm:"-"`
}

// Claim is the idempotency lease of one run of a keyed request. It is passed from the request to the transaction; a
// request without a key passes nil.
//
// # Exactly one effect
//
// A run can end without an answer because its process died or because a COMMIT was not answered. The next request with
// the key takes over and runs again with Again set, possibly before the first COMMIT takes effect. Every operation
// behind a POST must therefore have its effect only once:
//
//   - An effect in one database transaction (create a voucher, change stock, cancel, pay or redeem an order): the repo
//     method passes its claim to repo's writeOnce instead of calling Write, with the id of the changed resource. If an
//     earlier run had the effect, nothing changes, and the method reads the resource and returns it as if it had just
//     changed it. Steps after the transaction run again, so they must be idempotent. A request passes its claim to at
//     most one transaction.
//   - Placing an order uses no Claim. Its key is stored with the order (RequestKey, Orders.PlaceOnce).
//   - An effect outside the database: call NoteResource before it, and detect it when Again is set (see DeadLetters).
//
// A Claim belongs to one request and is not safe for concurrent use.
type Claim struct {
	KeyedRequest
	// Identifies this run.
	Token int64
	// Again is set on a takeover: an earlier run may have had its effect.
	Again bool
	// ResourceID is the resource that an earlier run recorded with NoteResource, or 0.
	ResourceID int64
	// Whether the store has a row of the key.
	Seen bool
}

// KeyState is the result of an attempt to claim a key.
type KeyState struct {
	// Err is nil if the key was claimed or has an answer. Errors: ErrIdempotencyMismatch, ErrOrderInProgress (another
	// run holds the lease), *RateLimitedError (the user has MaxKeys keys), ErrUnavailable.
	Err error
	// The stored answer; nil if the key was claimed.
	Answer *Answer
	// Runs of this request so far, including the one that has claimed the key.
	Runs int
	// Recorded with NoteResource; 0 if nothing is.
	ResourceID int64
}
