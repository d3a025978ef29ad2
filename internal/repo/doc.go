// Package repo stores vouchers, orders, payments and users in MySQL, MariaDB or SQLite.
//
// One exported method is one transaction. Package sqldb runs the transactions and translates driver errors. No transaction
// calls Redis or HTTP.
package repo
