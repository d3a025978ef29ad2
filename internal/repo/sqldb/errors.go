package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"

	"gorm.io/gorm"

	"seckill/internal/domain"
)

// Names of unique indexes that ForceIndex forces.
const (
	PrimaryKey        = "PRIMARY"
	UKUserVoucherSlot = "uk_user_voucher_slot"
)

// Translate maps a driver error to an error of package domain. Errors of package domain pass unchanged. So do unknown
// errors, which are answered as internal errors.
func (a Access) Translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gorm.ErrRecordNotFound):
		return domain.ErrNotFound
	case unreachable(err), a.dialect.translate(err) != faultOther:
		return fmt.Errorf("%w: database: %w", domain.ErrUnavailable, err)
	}
	return err
}

func unreachable(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
