package lane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// A purchase whose context has ended is placed.
func TestBatchContinuesWithoutItsCaller(t *testing.T) {
	placed := 0
	l := NewBatch(&ids{}, &store{place: func(_ context.Context, o domain.Order) (domain.Order, error) { placed++; return o, nil }}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o, _, err := l.Place(ctx, domain.Purchase{UserID: 7, VoucherID: 1, Limit: 1, Deadline: time.Now().Add(time.Minute)})
	require.NoError(t, err)
	require.Equal(t, int64(7), o.UserID)
	require.Equal(t, 1, placed)
}

// Each purchase of a batch has its own result. Only purchases whose id exists are placed a second time.
func TestPlacerMixedOutcomes(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	g := &ids{}
	p := placer{ids: g, orders: &store{place: func(_ context.Context, o domain.Order) (domain.Order, error) {
		calls++
		switch {
		case o.UserID == 1:
			return domain.Order{}, domain.ErrSoldOut
		case o.UserID == 2 && o.ID < 1000:
			return domain.Order{}, domain.ErrIDTaken
		case o.UserID == 3:
			return domain.Order{}, broken
		}
		return o, nil
	}}}
	results := p.commit(t.Context(), []domain.Purchase{{UserID: 1}, {UserID: 2}, {UserID: 3}, {UserID: 4}})
	require.ErrorIs(t, results[0].Err, domain.ErrSoldOut)
	require.Equal(t, "2 1003 <nil>", fmt.Sprint(results[1].Order.UserID, results[1].Order.ID, results[1].Err))
	require.ErrorIs(t, results[2].Err, broken)
	require.NoError(t, results[3].Err)
	require.Equal(t, 5, calls)
	require.Equal(t, []int{4, 1}, g.blocks, "one round trip per batch")
}

// Redis loses the counter between two purchases of a user within a millisecond, and the second one is given the id of
// the first. Its result is not the order of the first.
func TestPlacerDetectsRepeatedIDOfSameUser(t *testing.T) {
	p := placer{ids: &ids{next: storedBefore - 1}, orders: &store{place: func(_ context.Context, o domain.Order) (domain.Order, error) {
		if o.ID == storedBefore {
			return o, nil
		}
		return domain.Order{}, &domain.DuplicateOrderError{OrderID: storedBefore}
	}}}
	var dup *domain.DuplicateOrderError
	require.ErrorAs(t, p.commit(t.Context(), []domain.Purchase{{UserID: 7}})[0].Err, &dup)
}

// The observer receives orders and refusals.
func TestBatchObserver(t *testing.T) {
	var observed []error
	l := NewBatch(&ids{}, &store{place: func(_ context.Context, o domain.Order) (domain.Order, error) {
		if o.UserID == 2 {
			return domain.Order{}, domain.ErrSoldOut
		}
		return o, nil
	}}, func(batch []domain.Purchase, placed []domain.Placed) {
		for i := range batch {
			observed = append(observed, placed[i].Err)
		}
	})
	for user := range int64(3) {
		_, _, _ = l.Place(t.Context(), domain.Purchase{UserID: user, VoucherID: 7, Deadline: time.Now().Add(time.Minute)})
	}
	require.Equal(t, []error{nil, nil, domain.ErrSoldOut}, observed)
}

// Place returns by the deadline even if the transaction of its batch hangs, or that of the batch before it.
func TestBatchReturnsByDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		l := NewBatch(&ids{}, &store{place: func(_ context.Context, o domain.Order) (domain.Order, error) { <-hang; return o, nil }}, nil)
		start := time.Now()
		var wg sync.WaitGroup
		for user := range int64(2) {
			wg.Go(func() {
				_, _, err := l.Place(t.Context(), domain.Purchase{UserID: user, VoucherID: 1, Deadline: start.Add(3 * time.Second)})
				require.ErrorIs(t, err, domain.ErrUnavailable)
				require.Equal(t, 3*time.Second, time.Since(start))
			})
		}
		wg.Wait()
		close(hang)
		o, _, err := l.Place(t.Context(), domain.Purchase{UserID: 3, VoucherID: 1, Deadline: time.Now().Add(3 * time.Second)})
		require.NoError(t, err)
		require.Equal(t, int64(3), o.UserID)
	})
}
