// Package servers runs private MySQL, MariaDB, Redis and ZooKeeper processes that can be killed, paused and restarted, and a
// proxy that breaks their connections. It is for load tests and fault campaigns; tests use package env.
//
// # Durability
//
// MySQL and MariaDB run with innodb_flush_log_at_trx_commit=1, so committed data survives Kill and Restart. Redis runs without
// persistence and loses all data on Kill, unless its arguments have "--appendonly", "yes".
//
// # Ports
//
// A server keeps its port while it is down: a lock file reserves the port, for all processes of the user that use this
// package, until Stop or the end of the process.
//
// # Cleanup
//
// No server outlives its parent. On Linux the kernel kills the servers whenever the process ends; elsewhere they are
// stopped only if the process ends regularly. Directories of killed processes are removed when the next process
// starts a server.
package servers
