package reconcile

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"seckill/internal/domain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testNow = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// held returns an active order of a user.
func held(order, user int64) domain.Holder { return domain.Holder{OrderID: order, UserID: user} }
