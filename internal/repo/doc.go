// Package repo keeps vouchers, orders, users and sessions in MySQL, MariaDB or SQLite through gorm.
//
// One exported method is one transaction. Driver errors are translated here, naming the index that collided,
// and leave as the errors of package service. Nothing inside a transaction talks to Redis or HTTP.
package repo
