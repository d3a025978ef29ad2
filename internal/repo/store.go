package repo

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"seckill/internal/domain"
	"seckill/internal/kit/cache"
	"seckill/internal/repo/sqldb"
)

// Store is the database. It is safe for concurrent use.
type Store struct {
	*sqldb.DB
	db sqldb.Access
	// Those in the database; see maxOffers.
	offers  *cache.Cache[domain.OfferID, *domain.Offer]
	events  bool   // see RecordEvents
	queried string // see QueryBeforeClosing
}

// OpenMySQL opens MySQL or MariaDB as sqldb.OpenMySQL does.
func OpenMySQL(dsn string) (*Store, error) { return open(sqldb.OpenMySQL(dsn)) }

// OpenSQLite opens the embedded database as sqldb.OpenSQLite does.
func OpenSQLite(file string) (*Store, error) { return open(sqldb.OpenSQLite(file)) }

func open(db *sqldb.DB, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	return newStore(db), nil
}

func newStore(db *sqldb.DB) *Store {
	schema.RegisterSerializer("optional", optional{})

	return &Store{
		DB:     db,
		db:     sqldb.Access{DB: db},
		offers: cache.New[domain.OfferID](cache.Options[*domain.Offer]{MaxEntries: maxOffers}),
	}
}

// run runs fn in a kind of transaction of sqldb.Access, and returns its result. fn may run several times; the result is that
// of the last run.
func run[T any](
	ctx context.Context, transaction func(context.Context, func(tx *gorm.DB) error) error, fn func(tx *gorm.DB) (T, error),
) (T, error) {
	var result, none T
	err := transaction(ctx, func(tx *gorm.DB) error {
		var err error
		result, err = fn(tx)
		return err
	})
	if err != nil {
		return none, err
	}

	return result, nil
}

// runAt is run in a transaction of Write, with the time of the database at its beginning.
func runAt[T any](ctx context.Context, s *Store, fn func(tx *gorm.DB, now time.Time) (T, error)) (T, error) {
	return run(ctx, s.db.Write, func(tx *gorm.DB) (T, error) {
		now, err := s.db.Now(tx)
		if err != nil {
			var none T
			return none, err
		}
		return fn(tx, now)
	})
}

// lockDue locks and returns the first rows of a query, which have been due the longest. It skips those that another
// transaction has locked, as that is about to change them.
func lockDue[R any](due *gorm.DB, order string, limit int) ([]R, error) {
	var rows []R
	err := due.Clauses(sqldb.SkipLocked).Order(order).Limit(limit).Find(&rows).Error
	return rows, err
}

func list[T any](s *Store, q *gorm.DB) ([]T, error) {
	var rows []T
	err := q.Find(&rows).Error
	return rows, s.db.Translate(err)
}

func column[R, V any](rows []R, of func(r *R) V) []V {
	values := make([]V, len(rows))
	for i := range rows {
		values[i] = of(&rows[i])
	}
	return values
}

func byKey[R any, K comparable](rows []R, of func(r *R) K) map[K]R {
	return mapped(rows, func(r *R) (K, R) { return of(r), *r })
}

func mapped[R any, K comparable, V any](rows []R, of func(r *R) (K, V)) map[K]V {
	values := make(map[K]V, len(rows))
	for i := range rows {
		k, v := of(&rows[i])
		values[k] = v
	}
	return values
}

func grouped[R any, K comparable](rows []R, of func(r *R) K) map[K][]R {
	groups := map[K][]R{}
	for i := range rows {
		k := of(&rows[i])
		groups[k] = append(groups[k], rows[i])
	}
	return groups
}

func newest(q *gorm.DB, p domain.Page) *gorm.DB {
	if p.Before > 0 {
		q = q.Where("id < ?", p.Before)
	}
	return q.Order("id DESC").Limit(p.Limit)
}
