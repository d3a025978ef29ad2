// Package repo stores vouchers, orders, users and sessions in MySQL, MariaDB or SQLite through gorm.
//
// One exported method is one transaction. Driver errors are translated here, by the name of the violated index where
// there is one, into the errors of package service. No transaction calls Redis or HTTP.
package repo
