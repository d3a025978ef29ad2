// Package service contains the use cases of a flash sale: vouchers and their publishing, sales, orders and their search,
// payments and idempotency keys. The rules and errors are in package domain, the order modes in package lane. It contains no
// HTTP, SQL or Redis code. It declares the small interfaces that it needs, and the program passes in their implementations.
//
// # A purchase in a few lines
//
//	sale := sales.Get(voucherID)            // in-process snapshot, less than a second old
//	sale.CheckOpen(now)                     // sale_not_started, sale_ended
//	if sale.Stock <= 0 { the buyer's earlier order, duplicate_order or sold_out }
//	passes.Check(pass, user, voucher)       // entry_required, if the sale needs a pass
//	unpaid.MayOrder(user, sale)             // unpaid_limit, rate_limited: only after an order has ended unpaid
//	lane.Place:                             // batch: together with others; lock: the same, under the user's lock
//	  ids := ids.NextN(n)                   // timestamp << 32 | INCR
//	  begin
//	    insert orders (user, voucher, slot) // unique index: duplicate_order
//	    stock = stock - n where stock >= n  // no row: the last orders are removed, sold_out
//	  commit                                // only after this, the response is 201
//
// In lane queue, an admission gate in Redis admits the buyer first and the response is 202. Workers run the
// transaction.
//
// The database decides: the unique index and the conditional update keep every guarantee without the lock, the gate or
// Redis. Locks and gate only reduce the load of the database.
package service
