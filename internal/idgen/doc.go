// Package idgen makes order ids: positive 63-bit numbers that are unique over
// all instances, grow with time, and tell when they were made.
//
//	 63   62 ........ 32   31 ......... 0
//	| 0 | seconds since  | sequence of   |
//	|   | the Epoch      | the day       |
//
// The sequence is a Redis counter for each name and UTC day,
// icr:<name>:<yyyy:MM:dd>. One INCRBY takes one number ([Generator.Next]) or a
// block of them ([Generator.NextN]).
//
// # Why they are unique
//
// The seconds fix the day, the day fixes the counter, and a counter never gives
// a number twice. Nothing in that depends on the clocks: instances whose clocks
// differ, or one whose clock goes back, put other seconds in front of numbers
// that nobody else has. A clock that goes back over midnight comes back to the
// counter of the day before, which is kept for two days after its last use.
//
// A counter that is lost (Redis restarted empty, or failed over to a replica
// that lagged) is harmless by itself, too: it begins at 1 again, but the seconds
// have gone on.
//
// # Where it ends
//
// An id can repeat only if the same second meets the same number: the counter
// is lost and, in addition, the second is one in which ids were made before.
// That takes a loss within the second, or a clock that went back behind it (by
// more than two days also without a loss, for the counters of those days have
// expired). This package cannot see that; Redis forgot, and there is no other
// memory here.
//
// [WithGuard] closes all but the smallest part of this gap, for ids that are
// published before they are stored. After a restart or a failover the run id of
// the server tells that numbers may be missing, and the counter jumps past all
// that can be; after a flush it begins at a random one of 2^31 numbers. An id
// then repeats only if the counter is lost whole, and the same second meets the
// same random numbers: with 10,000 ids in that second, once in 100,000 losses.
// The sequence still is the counter of the day, but does not begin at 1.
//
// The primary key of the orders table has that memory and is the last guard:
// the insert fails, and no order is ever overwritten or shared. The caller
// then passes the id that was taken to [Generator.Skip], which moves the counter
// past everything that can have been handed out in that second, and takes a
// fresh id. Each further loss in the same second may cost one more round. A
// collision on any other unique index says something else and is none of this
// package's business.
//
// # Lost replies
//
// If the reply of an INCRBY is lost, its numbers are lost with it, and the call
// fails or, if the Redis client is configured to retry, takes further ones. Gaps
// mean nothing; there are 2^32 numbers in a day.
package idgen
