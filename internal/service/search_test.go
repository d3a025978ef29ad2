package service

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// searched has a queued order of user 1 that is committed between two reads.
type searched struct {
	SearchStore
	QueuedOrders

	asked SearchQuery
}

var waitingOrder = domain.Order{ID: 3, UserID: 1, VoucherID: 7, Status: domain.OrderQueued}

func (m *searched) Unstored(context.Context, domain.OrderFilter) ([]domain.Order, error) {
	return []domain.Order{{ID: 5, UserID: 1, VoucherID: 8, Status: domain.OrderFailed}, waitingOrder}, nil
}

func (m *searched) FindOrders(_ context.Context, q SearchQuery) ([]domain.Order, error) {
	m.asked = q
	stored := waitingOrder
	stored.Status = domain.OrderPendingPayment
	return []domain.Order{{ID: 4, UserID: 1, VoucherID: 7}, stored}, nil
}

func (m *searched) Phones(context.Context, []int64) (map[int64]string, error) {
	return map[int64]string{1: "13800000001"}, nil
}

// An order that is committed between the reads of the queue and of the store is found once, as it is stored.
func TestFindDuringCommit(t *testing.T) {
	m := &searched{}
	s := &Search{Store: m, Live: m, FirstID: func(time.Time) int64 { return 1 }}
	found, err := s.Find(t.Context(), SearchFilter{UserID: 1, Page: domain.Page{Limit: 3}})
	require.NoError(t, err)
	var ids []int64
	for _, o := range found {
		ids = append(ids, o.ID)
		require.Equal(t, "13800000001", o.Phone)
	}
	require.Equal(t, []int64{5, 4, 3}, ids)
	require.Equal(t, domain.OrderPendingPayment, found[2].Status)

	found, err = s.Find(t.Context(), SearchFilter{UserID: 1, VoucherID: 8, Status: domain.OrderFailed, Page: domain.Page{Limit: 3}})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.EqualValues(t, 5, found[0].ID)
}

// The times of a search become a range of ids. It has the orders of a server whose clock was set by ten minutes: the id of an
// order comes from that clock, and the time of an order of a waiting room from the database.
func TestTimesBecomeIDs(t *testing.T) {
	m := &searched{}
	s := &Search{Store: m, Live: m, FirstID: time.Time.Unix}
	from := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	to := from.Add(time.Hour)
	const step = 10 * time.Minute

	_, err := s.Find(t.Context(), SearchFilter{From: from, To: to, Page: domain.Page{Limit: 3}})
	require.NoError(t, err)
	require.LessOrEqual(t, m.asked.FirstID, from.Add(-step).Unix())
	require.Greater(t, m.asked.FirstID, from.Add(-time.Hour).Unix(), "other orders are skipped")
	require.Greater(t, m.asked.LastID, to.Add(step).Unix())
	require.Less(t, m.asked.LastID, to.Add(time.Hour).Unix())
}
