// Package queue turns admissions into orders: workers that read the streams of the gate, commit what they read in
// batches, and tell the gate how each ended.
//
// # Delivery
//
// An entry of a stream is a parcel of admissions. It is delivered at least once. It stays pending with its consumer
// until the gate has settled it, which takes it out of the stream; committing and settling the same admission again is
// harmless. Each stream has one reader, who has a few entries in hand at a time and commits them in their order, so
// that the order within a shard is kept except for what is delivered again.
//
// # What becomes of an admission
//
//	committed, or refused for good     settled
//	the database is unavailable        its parcel is kept in hand and tried again for as long as it takes
//	any other error, or a panic        poison: put back alone and tried again, a dead letter after Config.MaxTries
//
// A batch that fails as a whole is tried again in halves, until what poisons it stands alone. What was put back is
// left pending when it is delivered, and tried when it is claimed: that is its pause. A parcel that cannot be read is
// buried at once.
//
// # Stale entries
//
// What has been pending for Config.MinIdle, because its worker died, because the reply with it was lost, or because
// it was put back, is claimed by any reader who has nothing else in hand. XAUTOCLAIM differs between Redis 6.2 and 7 in
// what it says about entries that were deleted, and the client stumbles over the older form; claim.lua does the same
// out of commands that do not differ. A reader who keeps entries in hand renews its claim on them.
package queue
