package lock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// When an owner acquires the lock, its other waiters acquire it too, wherever they are in the queue and whatever their
// client.
func TestOtherWaitersOfOwnerAreWoken(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		rdb := newClient(t, addr)
		first, second, third := newLocks(t, addr), newLocks(t, addr), newLocks(t, addr)
		for _, test := range []struct {
			name, kind       string
			hold, lead       func(c *Client) Locker
			stranger, follow func(c *Client) Locker // behind the leader, in this order
		}{
			{"reentrant", reentrantKind.name, reentrantOf, reentrantOf, reentrantOf, reentrantOf},
			{"writers", "rw", writeOf, writeOf, readOf, writeOf},
			{"writer and reader", "rw", writeOf, writeOf, readOf, readOf},
			{"readers", "rw", writeOf, readOf, writeOf, readOf},
		} {
			t.Run(test.name, func(t *testing.T) {
				requireOneWithin(t, leaseEndBound, func() time.Duration {
					ctx, me := soon(t), owned(t)
					h := must(t)(test.hold(first).Lock(ctx))
					leader := background(me, test.lead(first))
					queued(t, rdb, test.kind, "a", 1)
					wait, leave := context.WithCancel(ctx)
					left := make(chan struct{})
					go func() { // it may acquire the lock first, and then releases it at once
						defer close(left)
						_ = Do(wait, test.stranger(third), nothing)
					}()
					queued(t, rdb, test.kind, "a", 2)
					follower := background(me, test.follow(second))
					queued(t, rdb, test.kind, "a", 3)
					began := time.Now()
					release(t, h)
					in := []*Hold{arrived(t, leader), arrived(t, follower)}
					took := time.Since(began)
					assert.Equal(t, in[0].Token(), in[1].Token())
					leave()
					<-left
					release(t, in...)
					return took
				})
			})
		}
		nothingLeft(t, rdb)
	})
}

func reentrantOf(c *Client) Locker { return c.Reentrant("a") }
func readOf(c *Client) Locker      { return c.RW("a").Read() }
func writeOf(c *Client) Locker     { return c.RW("a").Write() }

// A writer whose owner acquires the lock for reading gets ErrUpgrade at once.
func TestFollowingWriterGetsErrUpgrade(t *testing.T) {
	onEachServer(t, func(t *testing.T, addr string) {
		rdb := newClient(t, addr)
		a, b := newLocks(t, addr).RW("a"), newLocks(t, addr).RW("a")
		requireOneWithin(t, leaseEndBound, func() time.Duration {
			me := owned(t)
			h := must(t)(a.Write().Lock(soon(t)))
			reading := background(me, a.Read())
			queued(t, rdb, "rw", "a", 1)
			writing := background(me, b.Write())
			queued(t, rdb, "rw", "a", 2)
			began := time.Now()
			release(t, h)
			require.ErrorIs(t, (<-writing).err, ErrUpgrade)
			took := time.Since(began)
			release(t, arrived(t, reading))
			return took
		})
		nothingLeft(t, rdb)
	})
}

// Each waiter of the owner gets one message; waiters without an owner or with another one get none, and no message is
// sent if the owner had the lock already.
func TestOnlyWaitersOfSameOwnerAreWoken(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	ctx, me := soon(t), owned(t)
	rdb := newClient(t, server.Addr)
	c := newLocks(t, server.Addr)
	h := must(t)(c.Reentrant("a").Lock(ctx))
	var following []<-chan outcome
	for i := range 4 {
		following = append(following, background(me, newLocks(t, server.Addr).Reentrant("a")))
		queued(t, rdb, reentrantKind.name, "a", int64(2*i+1))
		stranger := c.newClaim(reentrantKind, c.Reentrant("a").keys, time.Minute, []string{"", "another"}[i%2])
		_, err := stranger.acquireOnce(ctx, modeWait)
		require.NoError(t, err)
	}
	release(t, h)
	holds := []*Hold{arrived(t, following[0])}
	for _, got := range following[1:] {
		holds = append(holds, arrived(t, got))
	}
	assert.Equal(t, 4, calls(t, rdb, "publish"), "one by the release, three by the first holder")
	holds = append(holds, must(t)(c.Reentrant("a").Lock(me)))
	release(t, holds[1:]...)
	assert.Equal(t, 4, calls(t, rdb, "publish"))
	release(t, holds[0])
}
