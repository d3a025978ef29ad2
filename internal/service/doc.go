// Package service holds the rules of a flash sale: what a voucher, a sale and an order are, who may buy when,
// and what a buyer is told. It knows neither HTTP nor SQL nor Redis; it declares the small interfaces that it
// needs of them, and cmd/seckill hands them in.
//
// # A purchase in ten lines
//
//	sale := sales.Get(voucherID)           // in-process snapshot, less than a second old
//	sale.CheckOpen(now)                    // sale_not_started, sale_ended
//	if sale.SoldOut { the user's order or sold_out }
//	lock user                              // not waiting: a held lock is order_in_progress
//	  id := ids.Next()                     // timestamp << 32 | INCR
//	  begin
//	    insert order (user, voucher, slot) // unique index: duplicate_order
//	    stock = stock - 1 where stock > 0  // no row: rollback, sold_out
//	  commit                               // only now the answer is 201
//	unlock
//
// The database decides: the unique index and the conditional update keep every promise without the lock and
// without Redis. The lock saves the database the work of a user who presses a hundred times.
package service
