package repo

import (
	"bytes"
	"context"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// elsewhereKeys returns those keys of the purchases that idempotency_keys has for another request. The query lists pairs of
// user and key: with two IN lists MariaDB would look up every combination.
func elsewhereKeys(tx *gorm.DB, db sqldb.Access, purchases []domain.KeyedPurchase) (map[keyID]bool, error) {
	prints := make(map[keyID][]byte, len(purchases))
	q := &sqldb.Statement{}
	q.Add("SELECT user_id, idem_key, fingerprint FROM idempotency_keys" + db.Syntax().ForceIndex(sqldb.PrimaryKey) + " WHERE (")

	for _, p := range purchases {
		if p.Key.Name != "" {
			if len(prints) > 0 {
				q.Add(" OR ")
			}
			q.Add("user_id = ? AND idem_key = ?", p.UserID, []byte(p.Key.Name))
			prints[keyID{p.UserID, p.Key.Name}] = p.Key.Request[:]
		}
	}

	if len(prints) == 0 {
		return nil, nil
	}

	q.Add(") AND expires_at > " + db.Syntax().Now)
	rows, err := sqldb.QueryRows[keyRow](tx, q)
	used := make(map[keyID]bool, len(rows))
	for _, r := range rows {
		id := keyID{r.UserID, string(r.IdemKey)}
		if !bytes.HasPrefix(r.Fingerprint, prints[id]) {
			used[id] = true
		}
	}

	return used, err
}

// refuseKeysOfOrders revokes the leases of keys under which an order was placed. The read locks the orders with these
// keys, so it waits for a transaction that is placing one. That transaction has either found the new lease and places
// no order, or its order is found here.
func (s *Store) refuseKeysOfOrders(ctx context.Context, claims []*domain.Claim, states []domain.KeyState) error {
	q := &sqldb.Statement{}
	q.Add("SELECT user_id, idem_key FROM voucher_orders"+s.db.Syntax().ForceIndex("uk_user_idem_key")+" WHERE created_at > ? AND (",
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
	rows, err := sqldb.QueryRows[keyRow](s.db.Writer(ctx), q)
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
