// Package admission is the admission gate: per-voucher counters in Redis, and the scripts that change them.
//
// The database decides which buyers get an order, by a unique index and a conditional update of the stock. The gate
// sheds load. One script admits a buyer, reserves a unit and appends the admission to a stream, so that no admission is
// lost between these steps. Workers turn admissions into orders and settle them here.
//
// The cost in Redis is the number of commands. Scripts therefore serve many buyers at a time: buyers that arrive
// together are read and written together, and share a stream entry of at most 64 admissions of one voucher. An entry
// leaves the stream as a whole. An admission in it that is to be retried becomes an entry of its own.
//
// # Data
//
// All keys of a voucher are in one of 16 shards, which are hash slots of a cluster. keys.go defines every key. Each
// voucher has the units that may still be admitted, the order ids that each buyer holds, and three counters for audits.
// After every script,
//
//	stock  = stock in the database - admissions in the stream that are not in the database
//	held   = order ids of all buyers: active orders and admissions
//	queued = admissions of this voucher in the stream
//
// Each shard has the stream, the dead letters, and the tickets of the users with admissions in the stream. A ticket is
// deleted when its order is committed. The number of users with tickets is the backlog. Tickets of failed admissions
// are kept separately, for 24 hours.
//
// Releasing an order id that its buyer does not hold changes nothing, so a release takes effect once even if it is
// repeated. Settling depends on the stream entry in the same way: only the call that removes the entry returns its
// units.
//
// The stock is negative after the database lost units while admissions were in flight. These admissions fail and return
// their units. Until then the gate admits no buyer.
//
// # Cold and loaded
//
// Redis may lose all data at any moment. A gate without its stock key is cold: it decides nothing (domain.ErrGateCold)
// until [Gate.Load] has rebuilt it from the database. [Gate.Rebuild]
// replaces a gate that differs from the database while the old one goes on admitting buyers. Redis must not evict keys
// (maxmemory-policy noeviction).
//
// # Loading
//
// The result is exact although orders keep changing during the load:
//
//  1. Take the load (the key "loading"). From now on, scripts append notes to a list: which orders buyers came to hold,
//     which were released, which entries left the stream, and how many rows were queued.
//  2. Read the entries of this voucher in the stream, page by page.
//  3. Mark, in one script: read the entries that were added to the stream since, take the notes and clear them. The
//     entries that were read, less those that left according to the notes, are exactly those in the stream at this
//     moment; their admissions are A. Tickets of other admissions are removed, and missing ones restored.
//  4. Unless the gate to be replaced has all admissions, raise the generation in the database. From then on, workers
//     commit no admission that Redis has lost.
//     Read the database in one snapshot, later than the mark: stock S, active orders H, and E, the part of A that
//     exists in the database. A release noted before the mark was also committed before it, so the snapshot contains
//     it.
//  5. A - E is in flight: it holds units that S still counts. stock = S - |A - E|, buyers = H + (A - E), queued = |A|.
//  6. Finish: apply the notes since the mark in their order, and put the result in place, in one script. (If there are
//     many notes, earlier calls of the script apply all but the last.) An order that a buyer came to hold after the
//     mark takes a unit, unless it is in the table: then the snapshot contains both. A released order is in the table
//     if it held a unit at the snapshot or later, and returns it; otherwise S already contains its unit. An order that
//     was committed and ended between mark and snapshot does both: it is not in the table, so its first note takes a
//     unit which its second note returns, now or with the release that follows.
//
// All segments of a gate are loaded together: steps 1 to 3 in each, one read of the database, and a finish of each. See
// load.share for how they divide the stock.
//
// None of this requires a cold gate. A cold gate admits no buyer during the load. A loaded one goes on admitting, and
// the finish swaps the tables (see Rebuild).
//
// Every event that would make the result wrong (data loss in Redis, expiry of the lease, AddStock, Unload) also removes
// the token, without which neither the mark nor the finish succeeds. The exception is a load that lies between AddStock
// and its change in the database, see there.
//
// The generation is raised from a value that was read before step 1. So a load that has lost its lease cannot raise that
// of the gate which another load has put in place since.
//
// # Lost admissions
//
// An entry that Redis has lost may be in the hands of a worker. The gate that is loaded then has neither its units nor
// its buyers, and may refuse one of them as sold out. The worker must not commit it afterwards, however late it is.
// Therefore every sale has a generation in the database. A load raises it before it reads the orders, unless the gate to
// be replaced has all admissions. Each entry is stamped with the generation of its gate, and the transaction that takes
// the units of an admission requires that the sale still has it. If not, the worker asks [Gate.Confirm]: an entry that
// is still in the stream is in the present gate, and is committed under its generation; any other is dropped.
//
// A gate has all admissions if it was loaded in the present replication history of its server, which ends when the
// server restarts or another one takes over. Otherwise it admits buyers while it has units, and answers domain.ErrGateLacking
// instead of sold out until it is loaded again. Without permission for the command INFO it is not loaded, and answers
// domain.ErrUnavailable instead of sold out.
//
// A server that still uses an old master, which another one has replaced, finds its gate complete and its generation
// outdated. It does not raise the generation at once: its admissions are lost, too. But if its workers are refused for
// longer than a failover lasts, none may come, such as after a move to another Redis and back. They then make its gate
// count as incomplete ([Gate.Outdate]). If the other server is used all the same, the two gates commit in turns.
//
// # Outcomes
//
// Any process can read the ticket of an admission that is not an order ([Gate.Ticket]). All waiting buyers share these
// reads.
package admission
