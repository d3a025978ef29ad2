// Package keys stores Idempotency-Keys with the answers to their requests, and marks the effect of a request in the
// transaction that makes it.
//
// An order stores the key of its own request; all other requests store theirs in idempotency_keys. A key belongs to one
// request, so each side checks the other one after it has written its own row.
package keys

import (
	"context"
	"strings"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// Store stores keys. It is safe for concurrent use.
type Store struct{ db sqldb.Access }

// New returns a Store in db.
func New(db sqldb.Access) *Store { return &Store{db} }

// keyRow is a row of idempotency_keys with the columns that are read.
type keyRow struct {
	UserID      int64
	IdemKey     []byte
	Fingerprint []byte
	Claim       int64
	Runs        int
	ResourceID  *int64
	ResourceAt  *time.Time
	Done        bool
	Status      int
	Location    string
	ContentType string
	Body        []byte
	Locked      bool // the lease has not ended
	Expired     bool // the lifetime is over
}

func (keyRow) TableName() string { return "idempotency_keys" }

// ID identifies a key.
type ID struct {
	UserID int64
	Key    string
}

// whereKeys selects the rows of the claimed keys.
func whereKeys(db *gorm.DB, claims []*domain.Claim) *gorm.DB {
	args := make([]any, 0, 2*len(claims))
	for _, c := range claims {
		args = append(args, c.UserID, []byte(c.Key))
	}
	return db.Where("user_id = ? AND idem_key = ?"+strings.Repeat(" OR user_id = ? AND idem_key = ?", len(claims)-1), args...)
}

// readKeyRows reads the rows of the claimed keys.
func (s *Store) readKeyRows(db *gorm.DB, claims []*domain.Claim) (map[ID]*keyRow, error) {
	k := s.db.Syntax()
	var rows []keyRow
	err := whereKeys(db, claims).Select("user_id, idem_key, fingerprint, claim, runs, resource_id, resource_at, done, status, location, " +
		"content_type, body, locked_until > " + k.Now + " AS locked, expires_at <= " + k.Now + " AS expired").Find(&rows).Error
	found := make(map[ID]*keyRow, len(rows))
	for i := range rows {
		found[ID{rows[i].UserID, string(rows[i].IdemKey)}] = &rows[i]
	}
	return found, err
}

// PurgeKeys implements service.KeyStore. It reads the rows before the transaction, without locks, and deletes them in
// the order of sortedClaims, so that several processes may wait for each other but do not deadlock.
func (s *Store) PurgeKeys(ctx context.Context) (int, error) {
	expired := "expires_at <= " + s.db.Syntax().Now
	var rows []keyRow
	err := s.db.Reader(ctx).Select("user_id", "idem_key").Where(expired).Order("expires_at").Limit(sqldb.PurgeBatch).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return 0, s.db.Translate(err)
	}
	claims := make([]*domain.Claim, len(rows))
	for i, r := range rows {
		claims[i] = &domain.Claim{KeyedRequest: domain.KeyedRequest{UserID: r.UserID, Key: string(r.IdemKey)}}
	}
	err = s.db.Write(ctx, func(tx *gorm.DB) error {
		// Check the time again: a key may have been used anew since it was read.
		return tx.Where(whereKeys(tx.Session(&gorm.Session{NewDB: true}), sortedClaims(claims))).Where(expired).Delete(&keyRow{}).Error
	})
	return len(rows), err
}
