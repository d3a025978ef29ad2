package repo

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"seckill/internal/domain"
)

// maxOffers bounds the offers that a Store remembers. They never change, so most orders are shown, and all but the first
// of a sale are placed, without another statement.
const maxOffers = 10_000

// KeepOffer implements service.OrderStore.
func (s *Store) KeepOffer(ctx context.Context, o *domain.Offer, until time.Time) error {
	if _, kept := s.offers.Get(o.ID); kept {
		return nil
	}

	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()

	_, err := s.offers.Load(ctx, o.ID, func(ctx context.Context) (*domain.Offer, error) {
		return o, s.db.RetryUnavailable(ctx, func() error {
			return s.db.Writer(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(new(*o)).Error
		})
	})

	// The wait for another caller's statement ends with the error of ctx.
	return s.db.Translate(err)
}

// AddOffers implements service.OrderStore.
func (s *Store) AddOffers(ctx context.Context, orders []domain.Order) error {
	return s.db.Translate(s.addOffers(s.db.Reader(ctx), column(orders, func(o *domain.Order) *domain.Order { return o })...))
}

func (s *Store) addOffers(db *gorm.DB, orders ...*domain.Order) error {
	var ids [][]byte
	for _, o := range orders {
		if o.Offer == nil && o.OfferID != (domain.OfferID{}) {
			o.Offer, _ = s.offers.Get(o.OfferID)
			if o.Offer == nil {
				ids = append(ids, o.OfferID[:])
			}
		}
	}

	stored, err := s.readOffers(db, ids)
	if err != nil {
		return err
	}

	var vouchers []int64
	for _, o := range orders {
		if o.Offer == nil {
			o.Offer = stored[o.OfferID]
		}
		if o.Offer == nil {
			vouchers = append(vouchers, o.VoucherID)
		}
	}

	if len(vouchers) == 0 {
		return nil
	}

	// Orders of other programs and of earlier releases show the voucher as it is now.
	present, err := presentOffers(db, vouchers)
	for _, o := range orders {
		if o.Offer == nil {
			o.Offer = present[o.VoucherID]
		}
	}

	return err
}

func (s *Store) readOffers(db *gorm.DB, ids [][]byte) (map[domain.OfferID]*domain.Offer, error) {
	if len(ids) == 0 {
		return nil, nil
	}

	var rows []*domain.Offer
	if err := db.Session(&gorm.Session{}).Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, err
	}

	found := make(map[domain.OfferID]*domain.Offer, len(rows))
	for _, o := range rows {
		found[o.ID] = o
		s.offers.Set(o.ID, o)
	}

	return found, nil
}
