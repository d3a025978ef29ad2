package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// Permits are neither lost nor created, whatever happens to callers and replies: waits are cut short at random, replies
// are lost at random, and in the end as many are available as were set.
func TestPermitsAreConserved(t *testing.T) {
	testenv.Full(t)
	eachSemaphore(t, onSingleServers, func(t *testing.T, addr string, k permitKind) {
		const permits, workers = 10, 30
		seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
		t.Logf("seed %d", seed)
		ctx, cancel := context.WithTimeout(context.Background(), 2*longTimeout)
		defer cancel()
		direct := k.of(newLocks(t, addr), "a")
		set(t, direct, permits)
		proxies := []*proxy{startProxy(t, addr), startProxy(t, addr), startProxy(t, addr)}
		var sources []permitSource
		for _, p := range proxies {
			// Permits that cannot be released in time return with the lease, where there is one.
			sources = append(sources, k.of(newLocks(t, p.Addr, WithWatchdog(longTimeout/2)), "a"))
		}

		var broken int
		stop := make(chan struct{})
		var chaos, work sync.WaitGroup
		chaos.Go(func() { broken = loseReplies(proxies, rand.New(rand.NewPCG(seed, 0)), stop) }) //nolint:gosec // reproducible
		var out, granted, cut, failed atomic.Int64
		for i := range workers {
			work.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(i+1))) //nolint:gosec // reproducible
				for range 10 {
					n := 1 + rng.Int64N(4)
					d := time.Duration(5+rng.IntN(200)) * time.Millisecond
					if rng.IntN(4) == 0 {
						d = longTimeout
					}
					wait, leave := context.WithTimeout(ctx, d)
					giveBack, err := sources[i%len(sources)].take(wait, n, rng.IntN(4) > 0)
					leave()
					switch {
					case errors.Is(err, ErrNotAcquired):
						cut.Add(1)
						continue
					case err != nil:
						failed.Add(1)
						continue
					}
					granted.Add(1)
					assert.LessOrEqual(t, out.Add(n), int64(permits), "more permits are out than exist")
					time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
					out.Add(-n)
					release, leave := context.WithTimeout(ctx, time.Duration(rng.IntN(30))*time.Millisecond)
					if err := giveBack(release); err != nil {
						assert.ErrorIs(t, err, ErrUncertain, "it was held")
					}
					leave()
				}
			})
		}
		work.Wait()
		close(stop)
		chaos.Wait()
		for _, p := range proxies {
			p.Heal()
		}
		t.Logf("%d acquires succeeded, %d were cancelled, %d failed; %d replies were lost", granted.Load(), cut.Load(), failed.Load(), broken)
		require.Positive(t, granted.Load())
		require.Positive(t, broken)
		eventually(t, "conserved", func() bool {
			n, err := direct.Available(ctx)
			return err == nil && n == permits
		})
		time.Sleep(100 * time.Millisecond) // time for a second, faulty release to show
		requireAvailable(t, direct, permits)
		onlyCountsLeft(t, newClient(t, addr), countKey(k.kind, "a"))
	})
}

// loseReplies makes the proxies drop replies and refuse commands until stop is closed, and returns how many.
func loseReplies(proxies []*proxy, rng *rand.Rand, stop <-chan struct{}) (broken int) {
	for {
		select {
		case <-stop:
			return broken
		case <-time.After(time.Duration(rng.IntN(30)) * time.Millisecond):
		}
		p := proxies[rng.IntN(len(proxies))]
		p.Inject([]fault{dropReply, dropReply, refuse}[rng.IntN(3)], anyCmd, 1+rng.IntN(2))
		time.Sleep(5 * time.Millisecond)
		broken += p.Broken()
	}
}
