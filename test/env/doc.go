// Package env gives tests their environment: private MySQL, MariaDB, Redis and ZooKeeper processes that can be killed,
// paused and restarted, databases with all tables and with faults, a browser, and the level of a test.
//
//	func TestMain(m *testing.M) { env.Main(m) }
//
//	func TestOrders(t *testing.T) {
//		env.OnEach(t, func(t *testing.T, db *sqldb.DB) { ... }) // new databases with the newest schema
//	}
//
//	func TestOnBothRedises(t *testing.T) {
//		env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) { ... })
//	}
//
// # Shared and private servers
//
// [SharedRedis], [Kind.DSN] and [SharedZooKeeper] start one server, or ensemble, per test process on first use. Tests are
// isolated by database: every DSN is a new database, and [EachRedis] uses a new Redis database number each time. Pub/sub
// channels, scripts and FLUSHALL are not limited to a database number. A test that needs these for itself, or that
// injects faults, uses a private server from [StartRedis], [Kind.Start], [StartGalera] or [StartZooKeeper].
//
// # Kinds of database servers
//
// A test of statements or transactions runs on MariaDB and MySQL ([EachKind]), any other one on [OneKind]: MariaDB,
// or the kind in [EnvDatabase], so that all of them can run on MySQL. A running MySQL in [EnvMySQLDSN] takes the place of
// the shared one; it need not be on this machine, and is neither killed nor configured.
//
// Package servers runs them, and does so without a test as well, for load tests and fault campaigns, which this package
// would burden with the imports of tests. Its documentation has the durability, ports and cleanup of the servers.
//
// # Files in memory
//
// [Main] sets TMPDIR to a new directory in /dev/shm if that has 4 GiB free: what a committed transaction costs is then
// no longer the fsync of a disk. Data in memory survives Kill. If TMPDIR is set, or benchmarks run, everything is in
// the usual place.
//
// # Required programs
//
// The tests need mysqld of MySQL 8.4 or later, mariadbd with mariadb-install-db and galera-4, redis-server, Debian's
// zookeeper, and for the pages a [Chromium]. A test whose program is missing is skipped with a message, or fails if [EnvRequire] is 1.
package env
