package domain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMaxUnpaid(t *testing.T) {
	for _, tc := range []struct {
		mode  EntryMode
		limit *int
		want  int
	}{
		{EntryOpen, nil, 0}, {EntryPass, nil, 1}, {EntryOpen, ptr(2), 2}, {EntryPass, ptr(3), 3}, {EntryPass, ptr(0), 0},
	} {
		require.Equal(t, tc.want, (&Sale{Entry: Entry{Mode: tc.mode}, UnpaidLimit: tc.limit}).MaxUnpaid(), "%v", tc)
	}
}

func TestMayOrder(t *testing.T) {
	sale := &Sale{UnpaidLimit: ptr(2)}
	require.NoError(t, SaleRecord{}.MayOrder(sale, testNow))
	require.NoError(t, SaleRecord{Expired: 1}.MayOrder(sale, testNow))
	for _, expired := range []int{2, 3} {
		require.ErrorIs(t, SaleRecord{Expired: expired, Cancelled: 1, LastCancel: testNow}.MayOrder(sale, testNow), ErrUnpaidLimit)
	}
	off := &Sale{UnpaidLimit: ptr(0)}
	require.NoError(t, SaleRecord{Expired: 9, Cancelled: 9, LastCancel: testNow}.MayOrder(off, testNow))
}

// Each cancellation doubles the pause, up to ten minutes.
func TestPauseAfterCancellations(t *testing.T) {
	sale := &Sale{UnpaidLimit: ptr(1)}
	for cancelled, pause := range map[int]time.Duration{
		1: 10 * time.Second, 2: 20 * time.Second, 6: 320 * time.Second, 7: 10 * time.Minute, 1000: 10 * time.Minute,
	} {
		r := SaleRecord{Cancelled: cancelled, LastCancel: testNow}
		var limited *RateLimitedError
		require.ErrorAs(t, r.MayOrder(sale, testNow.Add(time.Second)), &limited)
		require.Equal(t, pause-time.Second, limited.RetryAfter, "%d", cancelled)
		require.Contains(t, limited.Error(), "cancelled")
		require.Error(t, r.MayOrder(sale, testNow.Add(pause-1)))
		require.NoError(t, r.MayOrder(sale, testNow.Add(pause)))
	}
}
