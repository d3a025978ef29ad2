// Package testenv gives tests real servers: private MariaDB, Redis and ZooKeeper processes that can be killed, paused
// and restarted.
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//	func TestOrders(t *testing.T) {
//		store := open(t, testenv.MySQLDSN(t)) // a new, empty database
//		...
//	}
//
//	func TestOnBothRedises(t *testing.T) {
//		testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) { ... })
//	}
//
// # Shared and private servers
//
// [SharedRedis], [SharedMariaDB] and [SharedZooKeeper] start one server, or ensemble, per test process on first use.
// Tests are isolated by database: every [MariaDB.DSN] is a new database, and [EachRedis] uses a new Redis database number each time. Pub/sub channels,
// scripts and FLUSHALL are not limited to a database number. A test that needs these for itself, or that injects
// faults, uses a private server from [StartRedis], [StartMariaDB], [StartGalera] or [StartZooKeeper].
//
// Package servers runs them, and does so without a test as well. Its documentation has their durability, ports and
// cleanup.
//
// # Files in memory
//
// [Main] sets TMPDIR to a new directory in /dev/shm if that has 4 GiB free: what a committed transaction costs is then
// no longer the fsync of a disk. Data in memory survives Kill. If TMPDIR is set, or benchmarks run, everything is in
// the usual place.
//
// # Required programs
//
// The tests need mariadbd with mariadb-install-db and galera-4, redis-server, Debian's zookeeper, and for the pages a
// [Chromium]. A test whose program is missing is skipped with a message, or fails if [EnvRequire] is 1. If [EnvMySQLDSN] is set, [MySQLDSN] uses that
// server and starts no MariaDB.
package testenv
