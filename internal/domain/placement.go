package domain

import (
	"context"
	"crypto/sha256"
)

// NewOrder is an order to be placed, with the conditions for it.
type NewOrder struct {
	Order
	// The most active orders of the voucher per user.
	Limit int
	// The round of the pass of a waiting room, against which the order counts; 0 without one.
	Round uint32
	// Nil for a request without an Idempotency-Key.
	Key *RequestKey
	// Generation is that of the gate that admitted the order; nil without a gate. The order is refused with ErrGateReplaced
	// if the sale's gate has another one.
	Generation *int64
	// Fence is the context of a lock, or nil. After it has ended, the order is refused with ErrUnavailable instead of
	// being committed.
	Fence context.Context
	// Nil unless the request is sampled.
	Trace *Trace
}

// RequestKey identifies a request that places an order, so that a repetition is recognised.
type RequestKey struct {
	// The Idempotency-Key; empty if only the hash is known.
	Name string
	Hash [16]byte // of Name
	// A hash of the method, path and body.
	Request [16]byte
}

// NewRequestKey returns the key of a request. fingerprint is a hash of its method, path and body.
func NewRequestKey(name string, fingerprint [32]byte) *RequestKey {
	k := &RequestKey{Name: name, Hash: KeyHash(name)}
	copy(k.Request[:], fingerprint[:])
	return k
}

// KeyHash returns the hash of an Idempotency-Key that is stored with an order, in place of a name of any length.
func KeyHash(name string) [16]byte {
	sum := sha256.Sum256([]byte(name))
	var hash [16]byte
	copy(hash[:], sum[:])
	return hash
}

// Placed is the result of one order of PlaceOrders.
type Placed struct {
	Order Order
	Err   error
	// Whether it was stored before this call, with the same id, user, voucher and time.
	Before bool
	// An earlier request with the same key placed the order; Order is as it was then.
	Replayed bool
}
