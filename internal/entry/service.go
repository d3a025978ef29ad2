package entry

import (
	"context"
	"time"

	"seckill/internal/domain"
)

// Sales returns vouchers as they were less than a second ago. Errors: domain.ErrNotFound, domain.ErrUnavailable.
type Sales interface {
	Get(ctx context.Context, id int64) (domain.Voucher, error)
}

// Service admits buyers. It is safe for concurrent use.
type Service struct {
	Sales  Sales
	Passes *Passes
	Now    func() time.Time
}

// Admission is the permission to send purchases of a sale.
type Admission struct {
	Pass      string    // empty if the sale needs none
	ExpiresAt time.Time // of the pass
}

// Enter admits a user to a sale that is on. A repeated call returns another pass. Errors: domain.ErrNotFound,
// domain.ErrInvalidState (not a flash-sale voucher), domain.ErrSaleNotStarted, domain.ErrSaleEnded, domain.ErrSoldOut,
// domain.ErrUnavailable.
func (s *Service) Enter(ctx context.Context, userID, voucherID int64) (Admission, error) {
	v, err := s.Sales.Get(ctx, voucherID)
	if err != nil {
		return Admission{}, err
	}
	now := domain.Moment(s.Now())
	switch err := v.CheckOpen(now); {
	case err != nil:
		return Admission{}, err
	case v.Sale.Stock <= 0:
		return Admission{}, domain.ErrSoldOut
	case v.Sale.Entry.Mode == domain.EntryOpen:
		return Admission{}, nil
	}
	expires := now.Add(v.Sale.Entry.PassTTL)
	return Admission{Pass: s.Passes.Issue(userID, voucherID, v.Sale.Entry.Epoch, expires), ExpiresAt: expires}, nil
}
