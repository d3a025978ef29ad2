package repo

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"seckill/internal/domain"
)

type offerRow struct {
	ID          []byte `gorm:"primaryKey"`
	Title       string
	SubTitle    string
	Rules       string
	ActualValue int64
	ShopID      int64
	ShopName    string
	domain.Validity
}

func (offerRow) TableName() string { return "offers" }

func (r *offerRow) offer() *domain.Offer {
	return &domain.Offer{
		ID:          domain.OfferID(r.ID),
		Title:       r.Title,
		SubTitle:    r.SubTitle,
		Rules:       r.Rules,
		ActualValue: r.ActualValue,
		ShopID:      r.ShopID,
		ShopName:    r.ShopName,
		Validity:    r.Validity,
	}
}

// maxOffers bounds the offers that a Store remembers. They never change, so most orders are shown, and all but the first
// of a sale are placed, without another statement.
const maxOffers = 10_000

// KeepOffer implements service.OrderStore.
func (s *Store) KeepOffer(ctx context.Context, o *domain.Offer) error {
	if _, kept := s.offers.Get(o.ID); kept {
		return nil
	}

	_, err := s.offers.Load(ctx, o.ID, func(ctx context.Context) (*domain.Offer, error) {
		row := offerRow{
			ID:          o.ID[:],
			Title:       o.Title,
			SubTitle:    o.SubTitle,
			Rules:       o.Rules,
			ActualValue: o.ActualValue,
			ShopID:      o.ShopID,
			ShopName:    o.ShopName,
			Validity:    o.Validity,
		}

		err := s.db.RetryUnavailable(ctx, func() error {
			return s.db.Writer(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error
		})

		return o, err
	})

	return err
}

// AddOffers implements service.OrderStore.
func (s *Store) AddOffers(ctx context.Context, orders []domain.Order) error {
	return s.db.Translate(s.addOffers(s.db.Reader(ctx), pointers(orders)...))
}

func (s *Store) readOffer(db *gorm.DB, row *orderRow) error {
	return s.addOffers(db, &row.Order)
}

func pointers(orders []domain.Order) []*domain.Order {
	all := make([]*domain.Order, len(orders))
	for i := range orders {
		all[i] = &orders[i]
	}
	return all
}

// addOffers sets the offers of orders that have none yet.
func (s *Store) addOffers(db *gorm.DB, orders ...*domain.Order) error {
	var open []*domain.Order
	var ids [][]byte
	for _, o := range orders {
		if o.Offer != nil {
			continue
		}

		if o.OfferID != (domain.OfferID{}) {
			if known, ok := s.offers.Get(o.OfferID); ok {
				o.Offer = known
				continue
			}
			ids = append(ids, o.OfferID[:])
		}

		open = append(open, o)
	}

	stored, err := s.readOffers(db, ids)
	if err != nil {
		return err
	}

	var vouchers []int64
	for _, o := range open {
		o.Offer = stored[o.OfferID]
		if o.Offer == nil {
			vouchers = append(vouchers, o.VoucherID)
		}
	}

	if len(vouchers) == 0 {
		return nil
	}

	// Orders of other programs and of earlier releases show the voucher as it is now.
	present, err := presentOffers(db, vouchers)
	if err != nil {
		return err
	}

	for _, o := range open {
		if o.Offer == nil {
			o.Offer = present[o.VoucherID]
		}
	}

	return nil
}

func (s *Store) readOffers(db *gorm.DB, ids [][]byte) (map[domain.OfferID]*domain.Offer, error) {
	if len(ids) == 0 {
		return nil, nil
	}

	var rows []offerRow
	if err := db.Session(&gorm.Session{}).Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, err
	}

	found := make(map[domain.OfferID]*domain.Offer, len(rows))
	for i := range rows {
		o := rows[i].offer()
		found[o.ID] = o
		s.offers.Set(o.ID, o)
	}

	return found, nil
}
