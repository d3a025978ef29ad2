// Package repo stores what the program keeps in MySQL, MariaDB or SQLite: a file per table or subject, and one Store.
//
//	accounts, sessions, second_factors, erase                   users and their logins
//	catalog, shops, vouchers, images, offers                    what is sold; here an admin changes the stock of a sale
//	orders, place_orders, order_moves, order_search             orders
//	payments, unread_notices                                    payments and what providers report
//	keys, effects, order_keys                                   Idempotency-Keys and the answers to their requests
//	ledger, sale_facts, totals                                  reads of whole sales: reconciler, invariants, cold gates, statistics
//	rooms, entry_rounds                                         waiting rooms
//	audit, order_events                                         the audit log, and the outbox of events
//
// One exported method of a Store is one transaction. Package sqldb runs the transactions and translates driver errors.
// No transaction calls Redis or HTTP.
//
// An order stores the key of its own request; all other requests store theirs in idempotency_keys. A key belongs to one
// request, so each side checks the other one after it has written its own row.
package repo
