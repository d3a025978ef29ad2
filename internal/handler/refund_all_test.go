package handler_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// TestChangeDuringRefundAll changes the sale or the staff when a request has begun the first of many refunds.
func TestChangeDuringRefundAll(t *testing.T) {
	t.Parallel()
	const paid = 25
	for name, race := range map[string]struct {
		change func(e *env, v voucherView)
		status int // of the request that runs
		after  int // of the next one
	}{
		// The units of the refunds that have begun are sold again, and at most ten more.
		"the sale is published again": {
			change: func(e *env, v voucherView) {
				e.admin().patch(v.adminPath(), map[string]string{"status": "on"}).want(http.StatusOK)
			},
			status: http.StatusConflict, after: http.StatusConflict,
		},
		"the operator is removed": {
			change: func(e *env, _ voucherView) {
				_, err := e.admins.Remove(e.t.Context(), "13900000002")
				require.NoError(e.t, err)
				require.NoError(e.t, e.revoked.Load(e.t.Context()))
			},
			status: http.StatusOK, after: http.StatusUnauthorized,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachDatabase(t, func(t *testing.T, db option) {
				e := newEnv(t, db)
				operator, v := e.staff("13900000002", domain.RoleOperator), e.sale(paid)
				for n := range paid {
					e.buyer(n).paid(v)
				}
				operator.patch(v.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)

				var listed, changed atomic.Bool
				e.store.faults.Before(func(query string) error {
					switch {
					case strings.Contains(query, "voucher_orders"):
						listed.Store(true)
					case query == "BEGIN" && listed.Load() && changed.CompareAndSwap(false, true): // of the first refund
						race.change(e, v)
					}
					return nil
				})
				path := v.adminPath() + "/refunds"
				operator.post(path, nil).want(race.status)
				begun := paid - e.count("voucher_orders WHERE status = 2")
				require.Positive(t, begun)
				if race.status == http.StatusConflict {
					require.LessOrEqual(t, begun, 10)
				}
				operator.post(path, nil).want(race.after)
				require.Equal(t, paid-begun, e.count("voucher_orders WHERE status = 2"))

				require.NoError(t, e.payments.RefundDue(t.Context()))
				require.Len(t, e.bank.refunded, begun)
				e.checkInvariants()
			})
		})
	}
}
