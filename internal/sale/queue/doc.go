// Package queue turns admissions into orders. Its workers read the streams of the admission gate, commit the admissions
// in batches, and settle them in the gate.
//
// # Delivery
//
// A stream entry has one or more admissions, and is delivered at least once. It stays pending with its consumer until
// the gate has settled it, which removes it from the stream. Committing and settling an admission again is harmless.
// Each stream has one reader per process. A reader works on a few entries at a time and commits them in their order, so
// the order within a shard is kept, except for entries that are delivered again.
//
// # Outcomes of a commit
//
//	committed, or refused for good   settled
//	database unavailable             the entry is kept in memory and tried again without limit
//	gate replaced                    dropped if the present gate does not have it; otherwise tried again
//	any other error, or a panic      poison: retried in an entry of its own, dead-lettered after Config.MaxTries
//
// An entry with a retried admission is skipped when it is delivered, and tried when it is claimed: that is its pause. It is
// then committed alone, so a batch that fails as a whole, by a panic, delays its admissions and blames one of them only. An
// entry that cannot be parsed is dead-lettered at once.
//
// # Stale entries
//
// An entry that has been pending for Config.MinIdle is claimed by any idle reader: its worker died, the reply with it
// was lost, or it has a retried admission. XAUTOCLAIM reports deleted entries differently in Redis 6.2 and 7, and the
// client fails on the older form; claim.lua does the same with commands that behave equally in both. A reader that
// keeps entries in memory for long renews its claim on them.
package queue
