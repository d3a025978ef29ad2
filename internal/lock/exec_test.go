package lock

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
	"seckill/test/env/servers"
)

var echo = newScript(`return ARGV[5]`)

func callOf(s *script, text string) *call {
	return &call{script: s, keys: []string{"a"}, args: []any{"", "", 0, "", text}}
}

func isSent(c *call, e *executor) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return c.state == callSent
}

// newTestExecutor returns an executor that tolerates a machine that stalls, with echo loaded, and its round trips since.
func newTestExecutor(t *testing.T, addr string) (*executor, *trips) {
	t.Helper()
	rdb := newClient(t, addr)
	e := newExecutor(rdb, commandTimeout)
	e.timeout = longTimeout
	t.Cleanup(e.close)
	requireEchoes(t, e, e.submit(callOf(echo, "0")))
	return e, tripsOf(rdb)
}

// requireEchoes waits for calls of echo, each of which has its number as text.
func requireEchoes(t *testing.T, e *executor, calls ...*call) {
	t.Helper()
	for i, c := range calls {
		require.True(t, e.wait(soon(t), c))
		require.NoError(t, c.err)
		require.Equal(t, strconv.Itoa(i), c.value)
	}
}

// A deferrable call is sent with the next call that is not deferrable, or alone if there is none, even if the executor
// is closed.
func TestDeferrableCallsShareRoundTrips(t *testing.T) {
	t.Parallel()
	e, seen := newTestExecutor(t, startRedis(t))
	deferrable := func(text string) *call {
		c := callOf(echo, text)
		c.deferrable = true
		return e.submit(c)
	}

	together := false
	for range 50 { // unless the timer fires first
		before := seen.scripts()
		requireEchoes(t, e, deferrable("0"), deferrable("1"), e.submit(callOf(echo, "2")))
		together = together || seen.scripts() == before+1
	}
	require.True(t, together)
	requireEchoes(t, e, deferrable("0"))

	last := deferrable("0")
	e.close()
	requireEchoes(t, e, last)
}

// A script of a batch that fails or is not loaded does not affect the others.
func TestBatchedCommandsFailSeparately(t *testing.T) {
	t.Parallel()
	e, _ := newTestExecutor(t, startServer(t))
	fail := newScript(`return redis.error_reply('REFUSED for good')`)
	unknown := newScript(`return 'unknown ' .. ARGV[5]`)

	var calls []*call
	for _, s := range []*script{echo, fail, unknown, echo, unknown} {
		c := callOf(s, "x")
		c.done = make(chan struct{})
		calls = append(calls, c)
	}
	missing := e.roundTrip(soon(t), calls, true)
	require.Len(t, missing, 3, "fail was never loaded either")
	require.Empty(t, e.roundTrip(soon(t), missing, false))
	assert.Equal(t, "x", calls[0].value)
	require.ErrorContains(t, calls[1].err, "REFUSED")
	assert.True(t, notExecuted(calls[1].err))
	assert.Equal(t, "unknown x", calls[2].value)
	assert.Equal(t, "x", calls[3].value)
	assert.Equal(t, "unknown x", calls[4].value)
}

// While the server hangs, a caller that leaves before its command is sent cancels it, a command that is queued too long
// fails as not sent, and a command beyond the queue's limit fails at once.
func TestExecutorWhileServerHangs(t *testing.T) {
	env.Full(t)
	t.Parallel()
	server := env.StartRedis(t)
	e, _ := newTestExecutor(t, server.Addr)
	e.maxInFlight = 1
	e.timeout = 6 * time.Second // in which the queue is filled
	require.NoError(t, server.Pause())
	inFlight := e.submit(callOf(echo, "x"))
	eventually(t, "sent", func() bool { return isSent(inFlight, e) })

	left, leave := context.WithCancel(context.Background())
	leave()
	dropped := e.submit(callOf(echo, "x"))
	require.True(t, e.wait(left, dropped))
	require.ErrorIs(t, dropped.err, errNotSent)
	require.True(t, notExecuted(dropped.err))
	require.False(t, e.wait(left, inFlight), "its outcome is unknown")

	var queue []*call
	for range maxQueued - 1 {
		queue = append(queue, e.submit(callOf(echo, "x")))
	}
	busy := e.submit(callOf(echo, "x"))
	require.ErrorIs(t, busy.err, errBusy)
	require.True(t, notExecuted(busy.err))
	require.True(t, e.wait(soon(t), inFlight))
	require.Error(t, inFlight.err)
	require.False(t, notExecuted(inFlight.err))
	require.True(t, e.wait(soon(t), queue[len(queue)-1]))
	require.ErrorIs(t, queue[len(queue)-1].err, errNotSent)
	require.ErrorIs(t, queue[len(queue)-1].err, context.DeadlineExceeded)
	require.NoError(t, server.Resume())

	e.close()
	env.Fails(e.run(soon(t), echo, []string{"a"}, nil))(t, ErrClosed)
}

// In a Cluster, commands for a node that hangs delay no command for another one, however many they are.
func TestHangingNodeOfSeveral(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": startServer(t)}})
	defer func() { _ = ring.Close() }()
	resume := make(chan struct{})
	ring.AddHook(env.EachTrip(func(_ context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "get" {
			<-resume
		}
		return nil
	}))
	e := newExecutor(ring, longTimeout)
	defer e.close()
	goOn := sync.OnceFunc(func() { close(resume) })
	defer goOn()

	var hanging []*call
	for range 1000 {
		hanging = append(hanging, e.submit(&call{plain: []any{"get", "a"}}))
	}
	other := e.submit(&call{plain: []any{"incr", "b"}})
	require.True(t, e.wait(soon(t), other))
	require.NoError(t, other.err)

	goOn()
	for _, c := range hanging {
		require.True(t, e.wait(soon(t), c))
	}
}

// Calls of a joint script that are sent together are one command, each with its own key, arguments, reply and error.
func TestJointScript(t *testing.T) {
	t.Parallel()
	e, _ := newTestExecutor(t, startServer(t))
	ctx := soon(t)
	require.NoError(t, e.rdb.Set(ctx, "n:7", "text", 0).Err())
	add := newJointScript(`return redis.call('INCRBY', KEYS[1], ARGV[2]) + ARGV[1]`)
	trip := func(n int, byHash bool) []*call {
		var calls []*call
		for i := range n {
			calls = append(calls, &call{script: add, keys: []string{fmt.Sprint("n:", i)}, args: []any{1000, i}, done: make(chan struct{})})
		}
		if missing := e.roundTrip(ctx, calls, byHash); byHash {
			require.Len(t, missing, n, "the joint script was not loaded yet")
		} else {
			require.Empty(t, missing)
		}
		return calls
	}
	trip(10, true)

	for i, c := range trip(10, false) {
		if i == 7 {
			require.ErrorContains(t, c.err, "integer")
			require.True(t, notExecuted(c.err))
			continue
		}
		require.NoError(t, c.err)
		require.EqualValues(t, 1000+i, c.value)
	}
}

func TestRedLocksShareRoundTrips(t *testing.T) {
	t.Parallel()
	rdb := newClient(t, startServer(t))
	seen := tripsOf(rdb)
	all := env.Must(NewRedLocks([]redis.UniversalClient{rdb}, WithNodeTimeout(patience)))(t)

	const users, each = 64, 10
	var wg sync.WaitGroup
	for user := range users {
		wg.Go(func() {
			for range each {
				assert.NoError(t, TryDo(soon(t), all.Lock(fmt.Sprint("order:", user)), func(context.Context) error {
					time.Sleep(time.Millisecond)
					return nil
				}))
			}
		})
	}
	wg.Wait()
	require.Less(t, seen.scripts(), users*each, "releases share round trips")
	require.Zero(t, rdb.DBSize(soon(t)).Val())
}

// go-redis's own retries would count twice; a pipeline must not use them either.
func TestRetryingClientSendsOnce(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	ctx := soon(t)
	p := env.StartProxy(t, addr)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr}) // MaxRetries 3, no ContextTimeoutEnabled
	defer func() { _ = rdb.Close() }()
	e := newExecutor(rdb, commandTimeout)
	defer e.close()
	count := newScript(`return redis.call('INCR', KEYS[1])`)
	args := []any{"", "", 0, ""}
	env.Must(e.run(ctx, count, []string{"warm"}, args))(t)

	for _, batch := range []int{1, 5} {
		p.Inject(servers.DropReply, count.sha, 1)
		var calls []*call
		for range batch {
			calls = append(calls, &call{script: count, keys: []string{"n"}, args: args, done: make(chan struct{})})
		}
		e.roundTrip(ctx, calls, true)
		require.Equal(t, 1, p.Broken())
		for _, c := range calls {
			require.Error(t, c.err)
			require.False(t, notExecuted(c.err))
		}
	}
	n := env.Must(newClient(t, addr).Get(ctx, "n").Int())(t)
	assert.LessOrEqual(t, n, 6, "1 and 5 were sent, none of them twice")
}
