// Package admission is the gate in front of the database: a few keys in Redis and the scripts that change them.
//
// The database decides who gets an order (unique index, conditional update of the stock); the gate sheds load. It
// admits a buyer, sets a unit aside and appends the admission to a stream in one script, so that nothing can be
// admitted and then forgotten. Workers turn admissions into orders and settle them here.
//
// Redis pays for commands, so nothing of it is done for one buyer at a time: those who come to the script together are
// read and written together, and share an entry of the stream, a parcel of at most 64 admissions of one voucher. A
// parcel leaves the stream as a whole; an admission in it that is to be tried again becomes a parcel of its own.
//
// # What is kept
//
// All keys of a voucher lie in one of 16 shards, the hash slots of a cluster; keys.go names every one. For each
// voucher there are the units that may still be admitted, the order ids that each buyer holds, and three counters
// for audits. Between them, after every script,
//
//	stock  = stock in the database - admissions in the stream that are not in the database
//	held   = order ids of all buyers: active orders and admissions
//	queued = admissions of this voucher in the stream
//
// For each shard there are the stream, the dead letters, and what users have in the stream: their tickets, which go
// when the order is committed. Who has tickets counts as backlog. The ticket of an admission that failed is kept apart
// for 24 hours.
//
// Releasing an order id that no buyer holds changes nothing, which makes a release exactly-once however often it
// is repeated. Settling goes by the stream entry in the same way: who removes it also gives its units back.
//
// The stock may be below zero: then the database lost units while admissions were on their way. They will fail and
// give back what they hold, and nobody is admitted on these units meanwhile.
//
// # Cold and loaded
//
// Redis may lose everything at any moment. A gate whose stock key is missing is cold: it decides nothing
// (service.ErrGateCold) until [Gate.Load] has rebuilt it from the database; load.go tells why that is exact. A gate that
// differs from the database is rebuilt in the same way beside the one that goes on admitting ([Gate.Rebuild]).
// Redis must not evict keys (maxmemory-policy noeviction).
//
// # Outcomes
//
// An instance whose buyers wait subscribes to a channel of its own ([Gate.Run]); Settle publishes there. Messages
// may be lost, so that who waits also reads the ticket now and then ([Expectation.Wait]); all who wait share these reads.
package admission
