// Package service holds the rules of a flash sale: what a voucher, a sale and an order are, who may buy when,
// and what a buyer is told. It knows neither HTTP nor SQL nor Redis; it declares the small interfaces that it
// needs of them, and package app passes them in.
//
// # A purchase in ten lines
//
//	sale := sales.Get(voucherID)            // in-process snapshot, less than a second old
//	sale.CheckOpen(now)                     // sale_not_started, sale_ended
//	if sale.SoldOut { the user's order or sold_out }
//	lane.Place:                             // lock: alone, under the user's lock; batch, queue: with others
//	  ids := ids.NextN(n)                   // timestamp << 32 | INCR
//	  begin
//	    insert orders (user, voucher, slot) // unique index: duplicate_order
//	    stock = stock - n where stock >= n  // no row: rollback, sold_out
//	  commit                                // only now the answer is 201
//
// In the lane queue a gate in Redis admits the buyer first and answers 202, and workers run the transaction.
//
// The database decides: the unique index and the conditional update keep every promise without the lock, without the
// gate and without Redis. They save the database work.
package service
