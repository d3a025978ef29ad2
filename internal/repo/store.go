package repo

import (
	"seckill/internal/cache"
	"seckill/internal/domain"
	"seckill/internal/repo/accounts"
	"seckill/internal/repo/audit"
	"seckill/internal/repo/catalog"
	"seckill/internal/repo/keys"
	"seckill/internal/repo/ledger"
	"seckill/internal/repo/rooms"
	"seckill/internal/repo/sqldb"
)

// Store is the database. It is safe for concurrent use.
type Store struct {
	*sqldb.DB
	*accountStore
	*auditStore
	*catalogStore
	*keyStore
	*ledgerStore
	*roomStore
	db      sqldb.Access
	offers  *cache.Cache[domain.OfferID, *domain.Offer] // those in the database; see maxOffers
	events  bool                                        // see RecordEvents
	queried string                                      // see QueryBeforeClosing
}

type (
	accountStore = accounts.Store
	auditStore   = audit.Store
	catalogStore = catalog.Store
	keyStore     = keys.Store
	ledgerStore  = ledger.Store
	roomStore    = rooms.Store
)

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
	access := sqldb.Access{DB: db}
	return &Store{
		DB: db, db: access, accountStore: accounts.New(access), auditStore: audit.New(access), catalogStore: catalog.New(access),
		keyStore: keys.New(access), ledgerStore: ledger.New(access), roomStore: rooms.New(access),
		offers: cache.New[domain.OfferID](cache.Options[*domain.Offer]{MaxEntries: maxOffers}),
	}
}
