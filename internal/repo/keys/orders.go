package keys

import (
	"bytes"
	"context"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// Elsewhere returns those keys of the purchases that idempotency_keys has for another request. The query lists pairs of
// user and key: with two IN lists MariaDB would look up every combination.
func Elsewhere(tx *gorm.DB, db sqldb.Access, purchases []domain.KeyedPurchase) (map[ID]bool, error) {
	prints := make(map[ID][]byte, len(purchases))
	q := &sqldb.Statement{}
	q.Add("SELECT user_id, idem_key, fingerprint FROM idempotency_keys" + db.Syntax().ForceIndex(sqldb.PrimaryKey) + " WHERE (")
	for _, p := range purchases {
		if p.Key != nil && p.Key.Name != "" {
			if len(prints) > 0 {
				q.Add(" OR ")
			}
			q.Add("user_id = ? AND idem_key = ?", p.UserID, []byte(p.Key.Name))
			prints[ID{p.UserID, p.Key.Name}] = p.Key.Request[:]
		}
	}
	if len(prints) == 0 {
		return nil, nil
	}
	q.Add(") AND expires_at > " + db.Syntax().Now)
	rows, err := sqldb.QueryRows[keyRow](tx, q)
	used := make(map[ID]bool, len(rows))
	for _, r := range rows {
		id := ID{r.UserID, string(r.IdemKey)}
		if !bytes.HasPrefix(r.Fingerprint, prints[id]) {
			used[id] = true
		}
	}
	return used, err
}

// refuseKeysOfOrders revokes the leases of keys under which an order was placed. The read takes no locks, so an order
// in a slow transaction delays no leases. It misses an order that is not committed yet and whose transaction checked
// idempotency_keys just before this lease was stored; then both requests take effect, each once.
func (s *Store) refuseKeysOfOrders(ctx context.Context, claims []*domain.Claim, states []domain.KeyState) error {
	var users []int64
	var keys [][]byte
	for i, c := range claims {
		if states[i].Err == nil && states[i].Answer == nil {
			hash := domain.KeyHash(c.Key)
			users, keys = append(users, c.UserID), append(keys, hash[:])
		}
	}
	if len(keys) == 0 {
		return nil
	}
	var rows []struct {
		UserID  int64
		IdemKey []byte
	}
	err := s.db.Writer(ctx).Table("voucher_orders").Select("user_id", "idem_key").
		Where("user_id IN ? AND idem_key IN ? AND created_at > ?", users, keys, time.Now().UTC().Add(-domain.KeyLife)).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return err
	}
	used := make(map[ID]bool, len(rows))
	for _, r := range rows {
		used[ID{r.UserID, string(r.IdemKey)}] = true
	}
	for i, c := range claims {
		hash := domain.KeyHash(c.Key)
		if states[i].Err != nil || states[i].Answer != nil || !used[ID{c.UserID, string(hash[:])}] {
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
