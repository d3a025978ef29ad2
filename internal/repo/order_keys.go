package repo

import (
	"bytes"
	"context"
	"math"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// An order stores the key of its own request; all other requests store theirs in idempotency_keys. A key belongs to one
// request, so each side checks the other one after it has written its own row.

// RepeatedOrders implements service.OrderStore.
func (s *Store) RepeatedOrders(ctx context.Context, purchases []domain.KeyedPurchase) ([]domain.Placed, error) {
	rows := make([]*pendingInsert, len(purchases))
	for i, p := range purchases {
		rows[i] = &pendingInsert{
			row: orderRow{UserID: p.UserID, CreatedAt: p.At, IdemKey: p.Key.Hash[:], IdemRequest: p.Key.Request[:]},
			key: p.Key, limit: math.MaxInt, result: &domain.Placed{Err: domain.ErrNotFound},
		}
	}
	db := s.db.Reader(ctx)
	known := knownOrders{}
	if err := s.addKeyedOrders(db, rows, nil, known); err != nil {
		return nil, s.db.Translate(err)
	}
	elsewhere, err := s.keysElsewhere(db, rows)
	if err != nil {
		return nil, s.db.Translate(err)
	}
	found := make([]domain.Placed, len(rows))
	for i, p := range rows {
		if elsewhere[keyID{p.row.UserID, p.key.Name}] {
			p.fail(domain.ErrIdempotencyMismatch)
		} else {
			p.answerFrom(known[p.row.UserID])
		}
		found[i] = *p.result
	}
	return found, nil
}

// keysElsewhere returns those keys of the rows that idempotency_keys has for another request. The query lists pairs of
// user and key: with two IN lists MariaDB would look up every combination.
func (s *Store) keysElsewhere(tx *gorm.DB, of []*pendingInsert) (map[keyID]bool, error) {
	prints := make(map[keyID][]byte, len(of))
	q := &sqldb.Statement{}
	q.Add("SELECT user_id, idem_key, fingerprint FROM idempotency_keys" + s.db.Syntax().ForceIndex(sqldb.PrimaryKey) + " WHERE (")
	for _, p := range of {
		if p.key != nil && p.key.Name != "" {
			if len(prints) > 0 {
				q.Add(" OR ")
			}
			q.Add("user_id = ? AND idem_key = ?", p.row.UserID, []byte(p.key.Name))
			prints[keyID{p.row.UserID, p.key.Name}] = p.row.IdemRequest
		}
	}
	if len(prints) == 0 {
		return nil, nil
	}
	q.Add(") AND expires_at > " + s.db.Syntax().Now)
	rows, err := sqldb.QueryRows[keyRow](tx, q)
	used := make(map[keyID]bool, len(rows))
	for _, r := range rows {
		id := keyID{r.UserID, string(r.IdemKey)}
		if print := prints[id]; !bytes.HasPrefix(r.Fingerprint, print) {
			used[id] = true
		}
	}
	return used, err
}

// refuseKeysOfOrders revokes the leases of keys under which an order was placed. The read locks the orders with these
// keys, so it waits for a transaction that is placing one. That transaction has either found the new lease and places no
// order, or its order is found here.
func (s *Store) refuseKeysOfOrders(ctx context.Context, claims []*domain.Claim, states []domain.KeyState) error {
	q := &sqldb.Statement{}
	q.Add("SELECT user_id, idem_key FROM voucher_orders"+s.db.Syntax().ForceIndex("idx_user_idem_key")+" WHERE created_at > ? AND (",
		time.Now().UTC().Add(-domain.KeyLife))
	keys := 0
	for i, c := range claims {
		if states[i].Err == nil && states[i].Answer == nil {
			if keys > 0 {
				q.Add(" OR ")
			}
			hash := domain.KeyHash(c.Key)
			q.Add("user_id = ? AND idem_key = ?", c.UserID, hash[:])
			keys++
		}
	}
	if keys == 0 {
		return nil
	}
	q.Add(")" + s.db.Syntax().ForUpdate)
	rows, err := sqldb.QueryRows[orderRow](s.db.Writer(ctx), q)
	if err != nil || len(rows) == 0 {
		return err
	}
	used := make(map[keyID]bool, len(rows))
	for _, r := range rows {
		used[keyID{r.UserID, string(r.IdemKey)}] = true
	}
	for i, c := range claims {
		hash := domain.KeyHash(c.Key)
		if states[i].Err != nil || states[i].Answer != nil || !used[keyID{c.UserID, string(hash[:])}] {
			continue
		}
		states[i] = domain.KeyState{Err: domain.ErrIdempotencyMismatch}
		err := whereKeys(s.db.Writer(ctx), []*domain.Claim{c}).Where("claim = ?", c.Token).Delete(&keyRow{}).Error
		if err != nil {
			return err
		}
	}
	return nil
}
