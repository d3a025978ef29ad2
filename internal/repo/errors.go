package repo

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

// translate maps a driver error to an error of package service. Errors of package service pass unchanged. So do unknown
// errors, which are answered as internal errors.
func (s *Store) translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gorm.ErrRecordNotFound):
		return domain.ErrNotFound
	case unreachable(err), s.dialect.translate(err).kind == faultUnavailable, s.dialect.translate(err).kind == faultRetry:
		return fmt.Errorf("%w: database: %w", domain.ErrUnavailable, err)
	}
	return err
}

// unreachable reports whether err comes from the network, the connection pool or an ended context.
func unreachable(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// duplicate reports whether the named unique index refused the row ("PRIMARY" is the primary key).
func (s *Store) duplicate(err error, index string) bool {
	f := s.dialect.translate(err)
	return f.kind == faultDuplicate && f.index == index
}
