package service

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// moving is an order that moves from the queue to the store after its first read, as seen by movingStore and
// movingQueue.
type moving struct {
	order  domain.Order
	stored bool
}

func (m *moving) move() { m.stored = true }

// noOffers is the part of a store whose offers are not known.
type noOffers struct{ OrderStore }

func (noOffers) AddOffers(context.Context, []domain.Order) error { return nil }

type movingStore struct {
	noOffers
	*moving
}

type movingQueue struct {
	ReservationStore
	*moving
}

func (m movingStore) ListOrders(context.Context, domain.OrderFilter) ([]domain.Order, error) {
	defer m.move()
	if m.stored {
		return []domain.Order{m.order}, nil
	}
	return nil, nil
}

func (m movingStore) StoredOrders(_ context.Context, _ int64, ids []int64) ([]int64, error) {
	defer m.move()
	if m.stored && slices.Contains(ids, m.order.ID) {
		return []int64{m.order.ID}, nil
	}
	return nil, nil
}

func (m movingQueue) Tickets(context.Context, int64) ([]domain.Ticket, error) {
	defer m.move()
	if m.stored {
		return nil, nil
	}
	return []domain.Ticket{{Admission: domain.Admission{OrderID: m.order.ID, VoucherID: 7}}}, nil
}

// An order that is committed during List is in the list once, with its new status.
func TestListDuringCommit(t *testing.T) {
	for status, want := range map[domain.OrderStatus]int{0: 1, domain.OrderPendingPayment: 1, domain.OrderQueued: 0} {
		m := &moving{order: domain.Order{ID: 3, VoucherID: 7, Status: domain.OrderPendingPayment}, stored: status == domain.OrderPendingPayment}
		s := NewOrders(OrdersConfig{Store: movingStore{moving: m}, Queue: movingQueue{moving: m}, PayTimeout: time.Minute})
		list, err := s.List(t.Context(), domain.OrderFilter{UserID: 1, Status: status, Page: domain.Page{Limit: 20}})
		require.NoError(t, err)
		require.Len(t, list, want, "status %d", status)
		for _, o := range list {
			require.Equal(t, m.order, o)
		}
	}
}

// Tickets are listed without a query for each of them.
func TestListTickets(t *testing.T) {
	m := &waitingStore{}
	s := NewOrders(OrdersConfig{Store: m, Queue: waitingQueue{}, PayTimeout: time.Minute})
	list := func(f domain.OrderFilter) (ids []int64) {
		t.Helper()
		m.queries = 0
		orders, err := s.List(t.Context(), f)
		require.NoError(t, err)
		require.LessOrEqual(t, m.queries, 2)
		for _, o := range orders {
			ids = append(ids, o.ID)
		}
		return ids
	}
	require.Equal(t, []int64{50, 40, 30, 20}, list(domain.OrderFilter{Page: domain.Page{Limit: 20}}), "30 is stored, although its ticket has failed")
	require.Equal(t, []int64{50, 40, 30}, list(domain.OrderFilter{Page: domain.Page{Limit: 3}}))
	require.Equal(t, []int64{30, 20}, list(domain.OrderFilter{Page: domain.Page{Limit: 3, Before: 40}}))
	require.Equal(t, []int64{50, 20}, list(domain.OrderFilter{Status: domain.OrderQueued, Page: domain.Page{Limit: 20}}))
	require.Equal(t, []int64{50}, list(domain.OrderFilter{Status: domain.OrderQueued, Page: domain.Page{Limit: 1}}))
	require.Equal(t, []int64{40}, list(domain.OrderFilter{Status: domain.OrderFailed, Page: domain.Page{Limit: 20}}))
	require.Equal(t, []int64{30}, list(domain.OrderFilter{Status: domain.OrderPendingPayment, Page: domain.Page{Limit: 20}}))

	orders, err := s.List(t.Context(), domain.OrderFilter{Page: domain.Page{Limit: 2}})
	require.NoError(t, err)
	require.EqualValues(t, 12, *orders[0].Ahead, "the position in the queue")
	require.Nil(t, orders[1].Ahead)
}

// waitingQueue has tickets of the queued orders 50 and 20 and of the failed orders 40 and 30. Order 30 is nevertheless
// in waitingStore, which counts its queries.
type waitingQueue struct{ ReservationStore }

type waitingStore struct {
	noOffers
	queries int
}

func (waitingQueue) Tickets(context.Context, int64) ([]domain.Ticket, error) {
	ticket := func(id int64, failed string) domain.Ticket {
		return domain.Ticket{Admission: domain.Admission{OrderID: id, VoucherID: 7}, Failed: failed}
	}
	ahead, inLine := int64(12), ticket(50, "")
	inLine.Ahead = &ahead
	return []domain.Ticket{inLine, ticket(40, domain.ReasonSoldOut), ticket(30, domain.ReasonInternal), ticket(20, "")}, nil
}

func (w *waitingStore) ListOrders(_ context.Context, f domain.OrderFilter) ([]domain.Order, error) {
	w.queries++
	if f.Page.Before > 0 && f.Page.Before <= 30 {
		return nil, nil
	}
	return []domain.Order{{ID: 30, VoucherID: 7, Status: domain.OrderPendingPayment}}, nil
}

func (w *waitingStore) StoredOrders(_ context.Context, _ int64, ids []int64) ([]int64, error) {
	w.queries++
	return slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { return id != 30 }), nil
}

// failingOrderStore is a store whose reads fail with err.
type failingOrderStore struct {
	noOffers
	err   error
	reads int
}

func (s *failingOrderStore) Order(context.Context, int64, int64) (domain.Order, error) {
	s.reads++
	return domain.Order{}, s.err
}

// queueWithTickets is a Queue with a ticket of every order.
type queueWithTickets struct{ ReservationStore }

func (queueWithTickets) Ticket(_ context.Context, userID, orderID int64) (domain.Ticket, error) {
	return domain.Ticket{Admission: domain.Admission{OrderID: orderID, UserID: userID}}, nil
}

// An order is returned as queued only if the store does not have it. While the store is unavailable, it may be stored.
func TestGetQueuedOrder(t *testing.T) {
	db := &failingOrderStore{err: domain.ErrUnavailable}
	s := NewOrders(OrdersConfig{Store: db, Queue: queueWithTickets{}})
	_, err := s.Get(t.Context(), 7, 1)
	require.ErrorIs(t, err, domain.ErrUnavailable)
	_, err = s.Follow(t.Context(), 7, domain.Order{ID: 1, Status: domain.OrderPendingPayment})
	require.ErrorIs(t, err, domain.ErrUnavailable)
	db.err, db.reads = domain.ErrNotFound, 0
	o, err := s.Get(t.Context(), 7, 1)
	require.NoError(t, err)
	require.Equal(t, domain.OrderQueued, o.Status)
	o, err = s.Follow(t.Context(), 7, o)
	require.NoError(t, err)
	require.Equal(t, domain.OrderQueued, o.Status)
	require.Equal(t, 1, db.reads, "following a queued order reads only its ticket")
}
