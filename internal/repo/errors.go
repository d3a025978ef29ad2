package repo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"

	"gorm.io/gorm"

	"seckill/internal/service"
)

// translate turns a driver's error into the service's. Errors of the service pass unchanged, and so does what
// nobody knows: that is answered as an internal error.
func (s *Store) translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gorm.ErrRecordNotFound):
		return service.ErrNotFound
	case unreachable(err), s.dialect.translate(err).kind == faultDown, s.dialect.translate(err).kind == faultRetry:
		return fmt.Errorf("%w: database: %w", service.ErrUnavailable, err)
	}
	return err
}

// unreachable says whether err is the network's, the pool's or the clock's.
func unreachable(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// duplicate says whether err is the refusal of the named unique index ("PRIMARY" for the primary key).
func (s *Store) duplicate(err error, index string) bool {
	f := s.dialect.translate(err)
	return f.kind == faultDuplicate && f.index == index
}
