package sqldb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"seckill/internal/loop"
)

// schemaLease is the lease of the schema lock on Galera: the longest time for which a killed process blocks the others.
// It must exceed the difference between the clocks of the nodes.
const schemaLease = 15 * time.Second

// errSchemaLeaseLost ends the context of the schema lock.
var errSchemaLeaseLost = errors.New("another process took the schema lock, because this one did not renew it")

// lockMySQLSchema takes a named lock of the server, which the server releases when its connection ends, even if this
// process dies. On Galera such a lock is local to its node, so a lease in a table is taken, too.
func lockMySQLSchema(ctx context.Context, open func() (*sql.DB, error), lease time.Duration) (
	held context.Context, unlock func() error, err error,
) {
	db, err := open()
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1) // closing the pool closes the connection with the lock
	db.SetMaxIdleConns(1)
	db.SetConnMaxLifetime(0)
	release := func() {}
	held, err = ctx, takeServerLock(ctx, db)
	if err == nil {
		var galera bool
		if galera, err = onGalera(ctx, db); galera {
			held, release, err = leaseSchema(ctx, db, lease)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("lock the schema: %w", err), db.Close())
	}
	return held, func() error { release(); return db.Close() }, nil
}

func takeServerLock(ctx context.Context, db *sql.DB) error {
	for {
		var got sql.NullInt64
		err := db.QueryRowContext(ctx, "SELECT GET_LOCK(IF(CHAR_LENGTH(name) <= 64, name, SHA2(name, 256)), 1) "+
			"FROM (SELECT CONCAT(DATABASE(), '.migrate') AS name) AS l").Scan(&got) // MySQL allows 64 characters
		switch {
		case err != nil:
			return err
		case !got.Valid:
			return errors.New("the server refused GET_LOCK")
		case got.Int64 == 1:
			return nil
		}
	}
}

// onGalera reports whether the server is a node of a Galera cluster, of any size.
func onGalera(ctx context.Context, db *sql.DB) (bool, error) {
	var name, size string
	err := db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'").Scan(&name, &size)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return size != "0", err
}

const (
	createLease = `CREATE TABLE IF NOT EXISTS schema_lease (
		id TINYINT PRIMARY KEY, holder VARCHAR(26) NOT NULL, ends_at DATETIME(3) NOT NULL)`
	initLease = "INSERT IGNORE INTO schema_lease VALUES (1, '', NOW(3))"
	// takeLease takes or renews the lease. Galera lets one of the nodes that change a row at once succeed; the others
	// get a deadlock. NOW(3) always changes the row, so that it counts as affected.
	takeLease = "UPDATE schema_lease SET holder = ?, ends_at = NOW(3) + INTERVAL ? MICROSECOND WHERE id = 1 AND (holder = ? OR ends_at <= NOW(3))"
	endLease  = "UPDATE schema_lease SET ends_at = NOW(3) WHERE id = 1 AND holder = ?"
)

// leaseSchema waits for the lease, takes it and renews it until release. A node that has taken it has executed all
// changes of the previous holders, because every node executes all changes in the same order.
//
// A schema change blocks every other commit of the cluster, and with it a renewal, for longer than the lease. It blocks
// the other processes as well, and they come after the renewal. held ends when another process has the lease, or after
// the lease's time without a successful renewal.
func leaseSchema(ctx context.Context, db *sql.DB, lease time.Duration) (held context.Context, release func(), err error) {
	holder := rand.Text()
	take := func(ctx context.Context) (bool, error) {
		res, err := db.ExecContext(ctx, takeLease, holder, lease.Microseconds(), holder)
		if err != nil {
			return false, err
		}
		n, err := res.RowsAffected()
		return n == 1, err
	}
	var taken bool
	for taken, err = take(ctx); !taken; taken, err = take(ctx) {
		if errorNumber(err) == erNoSuchTable {
			if _, err = db.ExecContext(ctx, createLease); err == nil {
				_, err = db.ExecContext(ctx, initLease)
			}
		}
		if err != nil && mysqlFault(err).kind != faultRetry {
			return nil, nil, err
		}
		if err := loop.Sleep(ctx, lease/30); err != nil {
			return nil, nil, err
		}
	}
	held, lose := context.WithCancelCause(ctx)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lease / 5)
		defer tick.Stop()
		for renewed := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-held.Done():
				return
			case <-tick.C:
			}
			taken, err := take(held)
			switch {
			case err == nil && taken:
				renewed = time.Now()
			case err == nil, time.Since(renewed) > lease:
				lose(errors.Join(errSchemaLeaseLost, err))
			}
		}
	}()
	return held, func() {
		close(stop)
		<-done
		lose(nil)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mysqlIOTimeout)
		defer cancel()
		_, _ = db.ExecContext(ctx, endLease, holder) // otherwise it ends by itself
	}, nil
}

func errorNumber(err error) uint16 {
	var e *mysqldriver.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}
