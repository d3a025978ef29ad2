package lock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// TestClockSetBack: a waiter that died does not block the queue of a lock although the clock of Redis was set back by an
// hour since it came.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]func(c *Client) Locker{
		"fair":   func(c *Client) Locker { return c.Fair("a") },
		"rw":     func(c *Client) Locker { return c.RW("a").Write() },
		"leased": func(c *Client) Locker { return leasedLocker{c.LeasedSemaphore("a"), 1} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartMiniredis(t)
			rdb := newClient(t, server.Addr())
			ctx := soon(t)
			c := newLocks(t, server.Addr())
			if name == "leased" {
				set(t, leasedPermits{c.LeasedSemaphore("a")}, 1)
			}
			h := must(t)(kind(c).TryLock(ctx))

			// The entry of a waiter that will send nothing more is put back after it has left.
			dying, cancel := context.WithCancel(ctx)
			dead := background(dying, kind(newLocks(t, server.Addr())))
			eventually(t, "it waits", func() bool { return len(arrivalsOf(t, rdb)) == 1 })
			queue := rdb.Keys(ctx, "*:queue").Val()[0]
			entries := rdb.Keys(ctx, "*:waiters").Val()[0]
			place := rdb.ZRangeWithScores(ctx, queue, 0, -1).Val()[0]
			entry := rdb.HGetAll(ctx, entries).Val()
			cancel()
			require.Error(t, (<-dead).err)
			require.NoError(t, rdb.ZAdd(ctx, queue, place).Err())
			require.NoError(t, rdb.HSet(ctx, entries, entry).Err())

			began := time.Now()
			server.SetTime(began.Add(-time.Hour))
			stop := make(chan struct{})
			ticking := make(chan struct{})
			go func() {
				defer close(ticking)
				for {
					select {
					case <-stop:
						return
					case <-time.After(50 * time.Millisecond):
						server.SetTime(time.Now().Add(-time.Hour))
					}
				}
			}()
			defer func() {
				close(stop)
				<-ticking
			}()

			release(t, h)
			waiting, end := context.WithTimeout(ctx, longTimeout)
			defer end()
			release(t, must(t)(kind(c).Lock(waiting)))
		})
	}
}
