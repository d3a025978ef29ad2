package entry_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/entry"
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
	tickets []domain.Ticket
	err     error
}

func (q queued) Tickets(context.Context, int64) ([]domain.Ticket, error) {
	return slices.Clone(q.tickets), q.err
}

// ticket is a queued order of voucher 1, or one that has failed.
func ticket(order int64, round uint32, failed string) domain.Ticket {
	return domain.Ticket{Admission: domain.Admission{OrderID: order, VoucherID: 1, Round: round}, Failed: failed}
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

// A user with a queued order gets no place, but one whose order failed does, or who has another of two. Without Redis
// buyers get their places.
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
		require.ErrorAs(t, enter(queued{tickets: []domain.Ticket{ticket(33, 1, "")}}), &held)
		require.Equal(t, int64(33), held.OrderID)
		require.Zero(t, w.count("JoinRoom"))

		other := ticket(34, 1, "")
		other.VoucherID = 2
		require.NoError(t, enter(queued{tickets: []domain.Ticket{other, ticket(35, 1, "sold_out")}}))
		require.NoError(t, enter(queued{err: domain.ErrUnavailable}))
		w.vouchers[1].Sale.LimitPerUser = 2
		require.NoError(t, enter(queued{tickets: []domain.Ticket{ticket(33, 1, "")}}))
		server.Limits = limits{record: domain.SaleRecord{Active: 1}}
		require.ErrorAs(t, enter(queued{tickets: []domain.Ticket{ticket(33, 1, "")}}), &held)
	})
}

// What a server knows of a place that is given up: whether its turn has come, whether its pass is valid, and whether a
// queued order has bought with it.
func TestLeaveTellsWhatBecameOfThePass(t *testing.T) {
	simulate(t, func() *world { return newWorld(0, 1) }, func(t *testing.T, w *world, server *entry.Service) {
		server.Limits = limits{}
		w.vouchers[1].Sale.BeginAt = time.Now()
		leave := func(user int64, tickets ...domain.Ticket) domain.RoomPlace {
			server.Queued = queued{tickets: tickets}
			number := w.places[domain.SaleUser{UserID: user, VoucherID: 1}]
			require.NoError(t, server.Leave(t.Context(), user, 1, server.Tickets.Issue(user, 1, number)))
			return w.left[len(w.left)-1]
		}
		for user := range int64(3) {
			_, err := server.Enter(t.Context(), user, 1, "")
			require.NoError(t, err)
			if user == 1 {
				time.Sleep(2 * time.Second)
				w.change(func() { w.vouchers[1].Sale.Entry.Paused = true })
				time.Sleep(time.Second)
			}
		}
		require.Equal(t, domain.RoomPlace{UserID: 2, Number: 2}, leave(2, ticket(33, 1, "")), "waits")
		require.Equal(t, domain.RoomPlace{UserID: 0, Number: 0, Over: true, Pass: true}, leave(0, ticket(33, 9, "")), "bought with another pass")
		require.Equal(t, domain.RoomPlace{UserID: 1, Number: 1, Over: true, Pass: true, Bought: true}, leave(1, ticket(33, 1, "")))
		time.Sleep(time.Minute)
		require.Equal(t, domain.RoomPlace{UserID: 1, Number: 1, Over: true}, leave(1), "the pass has expired")
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
