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

// RepeatedOrders implements service.OrderStore.
func (s *Store) RepeatedOrders(ctx context.Context, purchases []domain.Purchase) ([]domain.Placed, error) {
	rows := make([]*pendingInsert, len(purchases))
	for i := range purchases {
		p := &purchases[i]
		rows[i] = newPendingInsert(&domain.NewOrder{
			Order: domain.Order{UserID: p.UserID, CreatedAt: p.At},
			Limit: math.MaxInt,
			Key:   p.Key,
		}, &domain.Placed{Err: domain.ErrNotFound})
	}

	db := s.db.Reader(ctx)
	known := knownOrders{}
	if err := s.addKeyedOrders(db, rows, known); err != nil {
		return nil, s.db.Translate(err)
	}

	elsewhere, err := s.keysElsewhere(db, rows)
	if err != nil {
		return nil, s.db.Translate(err)
	}

	found := make([]domain.Placed, len(rows))
	for i, p := range rows {
		if elsewhere[p.keyID()] {
			p.fail(domain.ErrIdempotencyMismatch)
		} else {
			p.answerFrom(known[p.row.UserID])
		}
		found[i] = *p.result
	}

	s.addReplayedOffers(ctx, found)
	return found, nil
}

// addReplayedOffers sets the offers of orders that earlier requests placed. Where they cannot be read, the request fails, so
// that its next attempt has the answer of the first one.
func (s *Store) addReplayedOffers(ctx context.Context, results []domain.Placed) {
	var replayed []*domain.Placed
	var orders []*domain.Order
	for i := range results {
		if r := &results[i]; r.Replayed {
			replayed = append(replayed, r)
			orders = append(orders, &r.Order)
		}
	}

	if err := s.addOffers(s.db.Reader(ctx), orders...); err != nil {
		for _, r := range replayed {
			*r = domain.Placed{Err: s.db.Translate(err)}
		}
	}
}

// keysElsewhere returns those keys of the rows that idempotency_keys has for another request. The query lists pairs of user and
// key: with two IN lists MariaDB would look up every combination.
func (s *Store) keysElsewhere(tx *gorm.DB, of []*pendingInsert) (map[keyID]bool, error) {
	prints := map[keyID][]byte{}
	q := &sqldb.Statement{}
	q.Add("SELECT user_id, idem_key, fingerprint FROM idempotency_keys" + s.db.Syntax().ForceIndex(sqldb.PrimaryKey) + " WHERE (")

	for _, p := range of {
		if p.order.Key != nil && p.order.Key.Name != "" {
			q.Or("user_id = ? AND idem_key = ?", p.row.UserID, []byte(p.order.Key.Name))
			prints[p.keyID()] = p.order.Key.Request[:]
		}
	}

	if len(prints) == 0 {
		return nil, nil
	}

	q.Add(") AND expires_at > " + s.db.Syntax().Now)
	rows, err := sqldb.QueryRows[keyRow](tx, q)
	used := make(map[keyID]bool, len(rows))
	for _, r := range rows {
		id := r.keyID()
		if !bytes.HasPrefix(r.Fingerprint, prints[id]) {
			used[id] = true
		}
	}

	return used, err
}

// refuseKeyOfOrder revokes the lease of a key under which an order was placed. state is the result of the claim. The read
// locks the order with the key, so it waits for a transaction that is placing one. That transaction has either found the
// new lease and places no order, or its order is found here.
func (s *Store) refuseKeyOfOrder(ctx context.Context, c *domain.Claim, state domain.KeyState) (domain.KeyState, error) {
	leased := state.Err == nil && state.Answer == nil
	if !leased {
		return state, nil
	}

	hash := domain.KeyHash(c.Key)
	q := &sqldb.Statement{}
	q.Add("SELECT user_id, idem_key FROM voucher_orders"+s.db.Syntax().ForceIndex("uk_user_idem_key")+
		" WHERE user_id = ? AND idem_key = ? AND created_at > ?"+s.db.Syntax().ForUpdate, c.UserID, hash[:], time.Now().UTC().Add(-domain.KeyLife))

	orders, err := sqldb.QueryRows[keyRow](s.db.Writer(ctx), q)
	if err != nil || len(orders) == 0 {
		return state, err
	}

	err = whereKey(s.db.Writer(ctx), c).Where("claim = ?", c.Token).Delete(&keyRow{}).Error
	return domain.KeyState{Err: domain.ErrIdempotencyMismatch}, err
}
