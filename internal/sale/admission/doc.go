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
// All keys of a voucher are in one of 16 shards, which are hash slots of a cluster. keys.go and [schema.Shard] define
// every key. Each voucher has the units that may still be admitted, the order ids that each buyer holds, and three
// counters for audits. After every script,
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
// until [Gate.Load] has rebuilt it from the database. [Gate.Load] explains why the result is exact. [Gate.Rebuild]
// replaces a gate that differs from the database while the old one goes on admitting buyers. Redis must not evict keys
// (maxmemory-policy noeviction).
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
// outdated. It does not raise the generation: its admissions are lost, too.
//
// # Outcomes
//
// Any process can read the ticket of an admission that is not an order ([Gate.Ticket]). The process with the waiting
// buyer also receives the outcome as a message ([Gate.Expect]): each process subscribes to its own channel ([Gate.Run]),
// to which [Gate.Settle] publishes outcomes. Messages may be lost, so a waiting buyer also polls the ticket
// ([OutcomeWaiter.Wait]). All waiting buyers share these reads.
package admission
