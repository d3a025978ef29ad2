// Package repo stores orders and payments in MySQL, MariaDB or SQLite. Its Store includes the stores of the packages
// below it, which have one subject each.
//
// One exported method of a Store is one transaction. Package sqldb runs the transactions and translates driver errors.
// No transaction calls Redis or HTTP.
package repo
