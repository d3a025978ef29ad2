package entry_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/entry"
)

// sale is the only voucher.
type sale struct{ domain.Voucher }

func (s sale) Get(context.Context, int64) (domain.Voucher, error) { return s.Voucher, nil }

// limits is a Limits with the same result for every user.
type limits struct {
	err    error
	record domain.SaleRecord
}

func (l limits) MayEnter(context.Context, int64, *domain.Voucher, time.Time) (domain.SaleRecord, error) {
	return l.record, l.err
}

// queued is a Reservations with the same result for every user.
type queued struct {
	count  int
	newest int64
	err    error
}

func (q queued) ActiveOrders(context.Context, int64, int64) (int, int64, error) {
	return q.count, q.newest, q.err
}

// A user beyond the limits of unpaid orders gets no pass. Open sales do not check them.
func TestUnpaidOrdersGetNoPass(t *testing.T) {
	v := domain.Voucher{Status: domain.VoucherOn, Sale: &domain.Sale{
		Stock: 1, BeginAt: now, EndAt: now.Add(time.Hour), Entry: domain.Entry{Mode: domain.EntryPass, PassTTL: time.Minute},
	}}
	s := &entry.Service{Sales: sale{v}, Passes: entry.NewPasses(oldKey), Limits: limits{err: domain.ErrUnpaidLimit}, Now: func() time.Time { return now }}
	a, err := s.Enter(t.Context(), 7, 1, "")
	require.ErrorIs(t, err, domain.ErrUnpaidLimit)
	require.Empty(t, a.Pass)
	s.Limits = limits{}
	a, err = s.Enter(t.Context(), 7, 1, "")
	require.NoError(t, err)
	require.NotEmpty(t, a.Pass)
	v.Sale.Entry.Mode = domain.EntryOpen
	s.Limits = limits{err: domain.ErrUnpaidLimit}
	_, err = s.Enter(t.Context(), 7, 1, "")
	require.NoError(t, err)
}

// A user with a queued order gets no place. While Redis has lost the gate, none is queued; while it is down, nobody knows.
func TestQueuedOrderGetsNoPlace(t *testing.T) {
	simulate(t, func() *world { return newWorld(0, 1) }, func(t *testing.T, w *world, server *entry.Service) {
		server.Limits = limits{}
		w.vouchers[1].Sale.BeginAt = time.Now()
		enter := func(q queued) error {
			server.Queued = q
			_, err := server.Enter(t.Context(), 7, 1, "")
			return err
		}
		var held *domain.DuplicateOrderError
		require.ErrorAs(t, enter(queued{count: 1, newest: 33}), &held)
		require.Equal(t, int64(33), held.OrderID)
		require.ErrorIs(t, enter(queued{err: domain.ErrUnavailable}), domain.ErrUnavailable)
		require.Zero(t, w.count("JoinRoom"))
		require.NoError(t, enter(queued{err: domain.ErrGateCold}))
		require.NoError(t, enter(queued{}))

		server.Queued = queued{count: 1, newest: 33}
		require.NoError(t, server.Leave(t.Context(), 7, 1, server.Tickets.Issue(7, 1, 0)))
		require.True(t, w.left[0].Bought, "the pass of a queued order has bought")
	})
}

// A buyer who has bought with a pass enters again at the end of the line, and only once.
func TestUsedPassCostsThePlace(t *testing.T) {
	simulate(t, func() *world { return newWorld(0, 1) }, func(t *testing.T, w *world, server *entry.Service) {
		server.Limits = limits{}
		w.vouchers[1].Sale.BeginAt = time.Now()
		enter := func(user int64) entry.Admission {
			a, err := server.Enter(t.Context(), user, 1, "")
			require.NoError(t, err)
			return a
		}
		enter(7)
		time.Sleep(2 * time.Second)
		first := enter(7)
		require.Equal(t, entry.Admitted, first.State)
		w.change(func() { w.vouchers[1].Sale.Entry.Paused = true })
		time.Sleep(2 * time.Second)
		require.Equal(t, entry.Waiting, enter(8).State)

		server.Limits = limits{record: domain.SaleRecord{LastRound: 1}}
		again := enter(7)
		require.Equal(t, entry.Waiting, again.State)
		require.Equal(t, 1, again.Ahead, "behind the buyer that waits")
		require.Equal(t, again.Number, enter(7).Number)

		w.change(func() { w.vouchers[1].Sale.Entry.Paused = false })
		for range 4 {
			time.Sleep(time.Second)
			enter(8)
			again = enter(7)
		}
		require.Equal(t, entry.Admitted, again.State, "the next pass is good")
	})
}
