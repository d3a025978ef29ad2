// Package testenv gives tests real servers: MariaDB and Redis processes of
// their own, which can be killed, frozen and started again.
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//	func TestOrders(t *testing.T) {
//		store := open(t, testenv.MySQLDSN(t)) // a fresh, empty database
//		...
//	}
//
//	func TestAgainstBothRedises(t *testing.T) {
//		testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) { ... })
//	}
//
// # Shared and private servers
//
// [SharedRedis] and [SharedMariaDB] start one server for the whole test process,
// when the first test asks. Tests keep apart by database: every
// [MariaDB.DSN] is a new database, and [EachRedis] hands out one Redis database
// number after the other. Pub/sub channels, scripts and FLUSHALL know no
// database numbers, so a test that needs those for itself, or that injects
// faults, takes a private server from [StartRedis] or [StartMariaDB].
//
// [RunRedis] and [RunMariaDB] are the same without a test, for programs that
// need a stack for a while.
//
// # Durability
//
// MariaDB runs with innodb_flush_log_at_trx_commit=1: what was committed is
// there after Kill and Restart. Redis runs without persistence: Kill loses
// everything, unless the test passes "--appendonly", "yes".
//
// # Left-overs
//
// Nothing outlives the test process. On Linux the kernel kills the servers when
// the process dies, however it dies (elsewhere only the usual ways of ending
// are covered). Folders of killed processes are removed by the next one that
// starts a server.
//
// # What must be installed
//
// mariadbd with mariadb-install-db, redis-server, and for the pages a [Chromium]. A test that finds none is
// skipped with a message, or fails where [EnvRequire] is 1. With [EnvMySQLDSN]
// set, [MySQLDSN] uses that server instead of a MariaDB of its own.
package testenv
