package repo

import (
	"context"
	"math"

	"seckill/internal/domain"
)

// RepeatedOrders implements service.OrderStore.
func (s *Store) RepeatedOrders(ctx context.Context, purchases []domain.KeyedPurchase) ([]domain.Placed, error) {
	rows := make([]*pendingInsert, len(purchases))
	for i, p := range purchases {
		rows[i] = &pendingInsert{
			row: orderRow{
				Order:       domain.Order{UserID: p.UserID, CreatedAt: p.At},
				IdemKey:     p.Key.Hash[:],
				IdemRequest: p.Key.Request[:],
			},
			key:    p.Key,
			limit:  math.MaxInt,
			result: &domain.Placed{Err: domain.ErrNotFound},
		}
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
