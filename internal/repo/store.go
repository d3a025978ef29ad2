package repo

import (
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

// newest selects a page of rows, newest first.
func newest(q *gorm.DB, p domain.Page) *gorm.DB {
	if p.Before > 0 {
		q = q.Where("id < ?", p.Before)
	}
	return q.Order("id DESC").Limit(p.Limit)
}
