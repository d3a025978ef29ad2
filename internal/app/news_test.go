package app

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/testenv"
)

// TestNewsReachTheOthers, also after Redis was away for a while.
func TestNewsReachTheOthers(t *testing.T) {
	m := testenv.StartMiniredis(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	heard := make(chan int64, 1000)
	var senders []*news
	for range 2 {
		rdb := OpenRedis("", m.Addr())
		n := newNews(rdb, slog.New(slog.DiscardHandler), VouchersChannel)
		senders = append(senders, n)
		wg.Go(func() { n.publish(ctx) })
		wg.Go(func() { n.receive(ctx, func(id int64) { heard <- id }) })
		t.Cleanup(func() { _ = rdb.Close() })
	}
	// Both hear it; until both listen, and after an outage, it is said again.
	requireHeard := func(id int64) {
		times := 0
		require.Eventually(t, func() bool {
			senders[0].changed(id)
			select {
			case got := <-heard:
				if got == id {
					times++
				}
			default:
			}
			return times >= 2
		}, time.Minute, 10*time.Millisecond)
	}
	requireHeard(7)
	m.Close()
	senders[0].changed(8) // lost, and no harm done
	require.NoError(t, m.Restart())
	requireHeard(9)

	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer rdb.Close()
	require.NoError(t, rdb.Publish(ctx, VouchersChannel, "no id,,-").Err())
	requireHeard(10)
	cancel()
	wg.Wait()
}
