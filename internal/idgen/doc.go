// Package idgen generates order ids: positive 63-bit numbers that are unique across all instances, increase with time,
// and contain their time of creation.
//
//	 63   62 ........ 32   31 ......... 0
//	| 0 | seconds since  | sequence of   |
//	|   | the Epoch      | the day       |
//
// The sequence is a Redis counter for each name and UTC day, icr:<name>:<yyyy:MM:dd>. One INCRBY takes one number
// ([Generator.Next]) or a block of numbers ([Generator.NextN]).
//
// # Why they are unique
//
// The seconds determine the day, the day determines the counter, and a counter never returns a number twice. This does
// not depend on the clocks: instances whose clocks differ, or an instance whose clock goes back, combine other seconds
// with numbers that no other instance has. A clock that goes back over midnight returns to the counter of the day
// before, which is kept for two days after its last use.
//
// A lost counter (Redis restarted empty, or failed over to a lagging replica) is harmless by itself: it begins at 1
// again, but in a later second.
//
// # Without Redis
//
// A counter is one key on one master. While that is down, a generator that has called [Generator.Reserve] takes the
// numbers of a block that it has reserved from the counter of the day. No other generator has these numbers, so they can
// be used again in every second of the day; from midnight UTC on, the counter of the new day is needed, which is mostly on
// another master. If the clock goes back meanwhile, the ids keep the second of the last one. Ids of different generators
// then do not increase within a second, which is why the counter is used while it answers. A second counter on another
// master would be no substitute: it cannot know which numbers the first one has given.
//
// # Limits
//
// An id can repeat only if the same second meets the same number: the counter is lost and, in addition, ids were
// generated in the same second before. That takes a loss within the second, or a clock that goes back to before the
// loss (or, without a loss, by more than two days, because the counters of those days have expired). This package
// cannot detect that, since it has no memory other than Redis. The numbers of a block that was reserved before a loss
// are taken again if the new counter meets them in a second in which the block is used; Reserve replaces the block of a
// lost counter.
//
// [WithGuard] closes nearly all of this gap, for ids that are published before they are stored. After a restart or a
// failover, a changed run id of the server shows that numbers may be missing, and the counter jumps past all of them.
// After a flush it begins at a random one of 2^31 numbers. An id then repeats only if the whole counter is lost and the
// same second meets the same random numbers: with 10,000 ids in that second, once in 100,000 losses. The sequence is
// still the counter of the day, but does not begin at 1.
//
// The primary key of the orders table is the last guard: the insert of a repeated id fails, so no order is overwritten
// or shared. The caller then passes the taken id to [Generator.Skip], which moves the counter past all numbers that can
// have been used in that second, and generates another id. Each further loss in the same second may cost one more
// round. Collisions on other unique indexes do not concern this package.
//
// # Lost replies
//
// If the reply of an INCRBY is lost, its numbers are not used. The call fails or, if the Redis client is configured to
// retry, takes further numbers. Gaps have no meaning; there are 2^32 numbers in a day.
package idgen
