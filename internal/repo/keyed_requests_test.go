package repo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

var lastToken int64

// newClaim returns the claim of a run. body stands for the contents of its request.
func newClaim(user int64, key, body string) *domain.Claim {
	lastToken++
	c := &domain.Claim{KeyedRequest: domain.KeyedRequest{UserID: user, Key: key}, Token: lastToken}
	copy(c.Fingerprint[:], body)
	return c
}

// claimKey calls ClaimKeys with one claim.
func (s *Store) claimKey(t *testing.T, c *domain.Claim) domain.KeyState {
	t.Helper()
	return s.ClaimKeys(t.Context(), []*domain.Claim{c})[0]
}

// endLease moves the end of the lease of a key into the past.
func (s *Store) endLease(t *testing.T, key string) {
	t.Helper()
	require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE idempotency_keys SET locked_until = created_at WHERE idem_key = ?", []byte(key)).Error)
}

// vouchersTitled returns the ids of the vouchers with a title.
func vouchersTitled(t *testing.T, s *Store, title string) (ids []int64) {
	t.Helper()
	require.NoError(t, s.db.Reader(t.Context()).Table("vouchers").Where("title = ?", title).Pluck("id", &ids).Error)
	return ids
}

// If a run took effect but could not answer, the next run changes nothing and gets the id of the resource.
func TestRepeatedRequestTakesEffectOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		first, second := newClaim(1, "make", ""), newClaim(1, "make", "")
		s.claimKey(t, first)
		v := domain.Voucher{ShopID: 1, Title: "once", Type: domain.VoucherNormal, Status: domain.VoucherOn, CreatedAt: now, UpdatedAt: now}
		require.NoError(t, s.CreateVoucher(t.Context(), first, &v, admin))
		s.endLease(t, "make")
		require.Equal(t, 2, s.claimKey(t, second).Runs)
		again := v
		again.ID = 0
		id, done := domain.DoneBefore(s.CreateVoucher(t.Context(), second, &again, admin))
		require.True(t, done)
		require.Equal(t, v.ID, id)
		require.Equal(t, []int64{v.ID}, vouchersTitled(t, s, "once"))

		sale := newSale(t, s, 2, 2)
		_, err := placeOrder(t.Context(), s, newOrder(1, 10, sale.ID), 2)
		require.NoError(t, err)
		first, second = newClaim(10, "cancel", ""), newClaim(10, "cancel", "")
		cancelOnce := func(c *domain.Claim, id int64) error {
			_, err := s.MoveOrder(t.Context(), domain.OrderMove{Move: domain.MoveCancel, OrderID: id, UserID: 10, At: now, Claim: c})
			return err
		}
		s.claimKey(t, first)
		require.ErrorIs(t, cancelOnce(first, 2), domain.ErrNotFound, "an error does not mark the key as done")
		require.NoError(t, cancelOnce(first, 1))
		s.endLease(t, "cancel")
		s.claimKey(t, second)
		id, done = domain.DoneBefore(cancelOnce(second, 1))
		require.True(t, done)
		require.Equal(t, int64(1), id)
		requireTotals(t, s, sale.ID, 2, 0)
	})
}
