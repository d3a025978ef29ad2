// Package idgen makes order ids: (unix seconds - Epoch) << 32 | sequence, the sequence from Redis INCR.
//
// The sequence counts per UTC day in the key icr:<name>:<yyyy:MM:dd>, so it tells how many ids a day used, and
// an id alone tells when it was made (see Time).
//
// # What happens when something breaks
//
// A clock that goes back is harmless while the counter lives: the sequence of a day never repeats, whatever the
// seconds say. A counter that Redis lost is harmless from the next second on: the seconds differ. Within the
// same second, or when the clock goes back as well, an id can come out twice. Nothing in here can see that, so
// the primary key of the orders table is the last guard: it refuses the second order, and the caller calls
// Skip and takes a fresh id. A reply that is lost on the way skips numbers and repeats none.
package idgen
