package app

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// TestInvalidationBusReconnects checks that every server receives an id, before and after an outage of Redis.
func TestInvalidationBusReconnects(t *testing.T) {
	m := testenv.StartMiniredis(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	received := make(chan int64, 1000)
	var buses []*invalidationBus
	for range 2 {
		rdb := openEmbedded(RedisInfo{Addr: m.Addr()})
		b := newInvalidationBus(rdb, slog.New(slog.DiscardHandler), VouchersChannel)
		buses = append(buses, b)
		wg.Go(func() { b.send(ctx) })
		wg.Go(func() { b.receive(ctx, func(id int64) { received <- id }) })
		t.Cleanup(func() { _ = rdb.Close() })
	}
	// The id is published repeatedly, because a message is lost until both servers are subscribed.
	requireReceived := func(id int64) {
		times := 0
		require.Eventually(t, func() bool {
			buses[0].publish(id)
			select {
			case got := <-received:
				if got == id {
					times++
				}
			default:
			}
			return times >= 2
		}, time.Minute, 10*time.Millisecond)
	}
	requireReceived(7)
	m.Close()
	buses[0].publish(8) // lost
	require.NoError(t, m.Restart())
	requireReceived(9)

	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer rdb.Close()
	require.NoError(t, rdb.Publish(ctx, VouchersChannel, "no id,,-").Err())
	requireReceived(10)
	cancel()
	wg.Wait()
}
