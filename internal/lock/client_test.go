package lock

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
	"seckill/test/env/servers"
)

// Every constructor refuses options out of range, before it sends anything.
func TestInvalidOptions(t *testing.T) {
	rdb := newClient(t, "127.0.0.1:1")
	one := []redis.UniversalClient{rdb}
	server := []string{"127.0.0.1:1"}

	for _, test := range []struct {
		err  error
		want string
	}{
		{env.Err(New(nil)), "nil"},
		{env.Err(New((*redis.Client)(nil))), "nil"},
		{env.Err(New(rdb, WithPrefix(""))), "prefix"},
		{env.Err(New(rdb, WithPrefix("{a}"))), "prefix"},
		{env.Err(New(rdb, WithWatchdog(MinLease-1))), "lease"},
		{env.Err(New(rdb, WithWatchdog(MaxLease+time.Second))), "lease"},

		{env.Err(NewRedLock("", one)), "name"},
		{env.Err(NewRedLock("a", nil)), "at least one node"},
		{env.Err(NewRedLock("a", []redis.UniversalClient{rdb, nil})), "node 1 is nil"},
		{env.Err(NewRedLock("a", []redis.UniversalClient{(*redis.Client)(nil)})), "node 0 is nil"},
		{env.Err(NewRedLock("a", one, WithWatchdogLease(MinLease-1))), "lease"},
		{env.Err(NewRedLock("a", one, WithWatchdogLease(MaxLease+time.Second))), "lease"},
		{env.Err(NewRedLock("a", one, WithNodeTimeout(0))), "node timeout"},
		{env.Err(NewRedLock("a", one, WithNodeTimeout(time.Hour))), "node timeout"},

		{env.Err(NewZooKeeper([]string{""})), "addresses"},
		{env.Err(NewZooKeeper(server, WithSessionTimeout(MinSessionTimeout-1))), "session timeout"},
		{env.Err(NewZooKeeper(server, WithSessionTimeout(time.Hour))), "session timeout"},
		{env.Err(NewZooKeeper(server, WithRequestTimeout(0))), "request timeout"},
		{env.Err(NewZooKeeper(server, WithRoot(""))), "root"},
		{env.Err(NewZooKeeper(server, WithRoot("/"))), "root"},
		{env.Err(NewZooKeeper(server, WithRoot("lock"))), "root"},
		{env.Err(NewZooKeeper(server, WithRoot("/a/../b"))), "root"},
	} {
		require.ErrorContains(t, test.err, test.want)
	}

	c := newLocksOf(t, rdb)
	for _, l := range []Locker{c.Mutex("a"), redLockOf(c, "a"), Multi(c.Mutex("a"))} {
		err := env.Err(l.TryLock(soon(t), WithLease(-time.Second)))
		require.ErrorContains(t, err, "lease")
		require.NotErrorAs(t, err, new(*net.OpError), "it is refused before a command is sent")
	}
}

// An unreachable ensemble is not a taken lock, and long names are refused.
func TestUnreachableZooKeeper(t *testing.T) {
	t.Parallel()
	z := newZooKeeper(t, []string{"127.0.0.1:1"}, WithRequestTimeout(50*time.Millisecond))
	for _, name := range []string{"", strings.Repeat("k", maxNodeName+1)} {
		env.Fails(z.Mutex(name).TryLock(soon(t)))(t, "name")
	}
	requireFails(t, env.Err(z.Mutex("a").TryLock(soon(t))), "no session", not{ErrNotAcquired}, not{ErrUncertain})
	require.ErrorContains(t, z.Ping(t.Context()), "connection refused")

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWork)
	requireFails(t, z.Ping(ctx), context.Canceled, errWork)
}

// One contended cycle on a ring. TestCluster has the cluster.
func TestRing(t *testing.T) {
	t.Parallel()
	addr := env.StartMiniredis(t).Addr()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addr}})
	defer func() { require.NoError(t, ring.Close()) }()
	c := newLocksOf(t, ring)

	for _, k := range append(exclusiveKinds, redLocks) {
		h := env.Must(k.lock(c, "a").Lock(soon(t)))(t)
		got := background(soon(t), k.lock(c, "a"))
		k.queued(t, newClient(t, addr), "a", 1)
		release(t, h)
		release(t, arrived(t, got))
	}
	require.NoError(t, c.Close())
	nothingLeft(t, newClient(t, addr))
}

// Locks of many names are spread over all nodes. Waiters are woken on whichever node their client is subscribed.
func TestCluster(t *testing.T) {
	t.Parallel()
	rdb := env.StartRedisCluster(t).Client(t).(*redis.ClusterClient)
	one, two := newLocksOf(t, rdb), newLocksOf(t, rdb)

	for _, k := range lockKinds {
		for i := range 6 {
			name := fmt.Sprint("{", i)
			k.ready(t, one, name)
			requireWoken(t, func(ctx context.Context) {
				h := env.Must(k.block(one, name).TryLock(ctx))(t)
				next := background(ctx, k.lock(two, name))
				eventually(t, "queued", func() bool { return rdb.ZCard(ctx, k.keys(name)[1]).Val() == 1 })
				release(t, h)
				release(t, arrived(t, next))
			})
		}
	}
}

// TestOpenSlot: while the slot of a lock is moved to another node, Redis refuses scripts some of whose keys do not exist. The
// holder repeats its renewal and keeps the lock; an acquire fails with Redis's reason, and leaves nothing behind; a release goes
// on by itself.
// Source: redisson/redisson#612, redis/redis#2710.
func TestOpenSlot(t *testing.T) {
	t.Parallel()
	cluster := env.StartRedisCluster(t)
	rdb := cluster.Client(t).(*redis.ClusterClient)
	for _, k := range leasedKinds {
		t.Run(k.label, func(t *testing.T) {
			t.Parallel()
			ctx := soon(t)
			var seen recorder
			c := newLocksOf(t, rdb, WithWatchdog(9*time.Second), WithObserver(seen.observe))
			k.ready(t, c, k.label)
			h := env.Must(k.block(c, k.label).TryLock(owned(t)))(t)
			move, stay := slotOf(t, cluster, k.keys(k.label)[0])

			move()
			requireFails(t, env.Err(k.block(c, k.label).TryLock(ctx)), "TRYAGAIN", not{ErrNotAcquired}, not{ErrUncertain})
			eventually(t, "a renewal fails", func() bool { return seen.count(EventRenewFailed) > 0 })
			before := h.ValidUntil()
			stay()
			eventually(t, "renewed", func() bool { return h.ValidUntil().After(before) })
			require.NoError(t, h.Context().Err())

			move()
			short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, h.Release(short), ErrUncertain)
			stay()
			eventually(t, "released", func() bool {
				next, err := k.block(c, k.label).TryLock(ctx)
				return err == nil && next.Release(ctx) == nil
			})
		})
	}
}

// slotOf returns functions that open the slot of a key for its move to another node, and that end the move.
func slotOf(t *testing.T, cluster *servers.RedisCluster, key string) (move, stay func()) {
	t.Helper()
	ctx := context.Background()
	rdb := cluster.Client(t).(*redis.ClusterClient)
	slot := rdb.ClusterKeySlot(ctx, key).Val()
	source := env.Must(rdb.MasterForKey(ctx, key))(t)
	var target *redis.Client
	for _, node := range cluster.Nodes {
		if node.Addr != source.Options().Addr {
			target = clientOf(t, node)
		}
	}
	id := func(node *redis.Client) any { return node.Do(ctx, "cluster", "myid").Val() }
	set := func(node *redis.Client, state ...any) {
		require.NoError(t, node.Do(ctx, append([]any{"cluster", "setslot", slot}, state...)...).Err())
	}
	move = func() {
		set(target, "importing", id(source))
		set(source, "migrating", id(target))
	}
	stay = func() {
		set(source, "stable")
		set(target, "stable")
	}
	return move, stay
}

func TestCommandsOfACycle(t *testing.T) {
	t.Parallel()
	rdb := newClient(t, startServer(t))
	l := env.Must(NewRedLock("a", []redis.UniversalClient{rdb}, WithNodeTimeout(patience)))(t)
	require.NoError(t, TryDo(soon(t), l, nothing)) // loads the script

	seen := tripsOf(rdb)
	require.NoError(t, TryDo(soon(t), l, func(ctx context.Context) error {
		assert.ErrorIs(t, env.Err(l.TryLock(ctx)), ErrNotAcquired)
		return nil
	}))
	assert.Equal(t, [][]string{{"set"}, {"set"}, {"evalsha"}}, seen.all)
}

// Of three nodes one dies, and then another one.
func TestThreeNodesDie(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var seen recorder
	var nodes [3]*env.Redis // nothing else gets the port of a dead one
	var addrs []string
	for i := range nodes {
		nodes[i] = env.StartRedis(t)
		addrs = append(addrs, nodes[i].Addr)
	}
	l := newRedLocks(t, addrs, WithWatchdogLease(6*time.Second), WithRedLockObserver(seen.observe)).Lock("a")
	nodes[2].Kill()

	h := env.Must(l.TryLock(ctx))(t)
	first := h.ValidUntil()
	env.Fails(l.TryLock(ctx))(t, ErrNotAcquired, "two of three nodes agree")
	eventually(t, "renewed by two", func() bool { return h.ValidUntil().After(first) })
	require.NoError(t, h.Release(ctx))
	keyGone(t, addrs[:2]...)
	assert.Zero(t, seen.count(EventUncertain))

	// Contenders that acquire one live node each retry until one of them has both.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			wait, cancel := context.WithTimeout(ctx, longTimeout)
			defer cancel()
			assert.NoError(t, Do(wait, l, nothing))
		})
	}
	wg.Wait()

	l = newRedLocks(t, addrs).Lock("a")
	h = env.Must(l.TryLock(ctx))(t)
	nodes[0].Kill()
	require.ErrorIs(t, h.Release(ctx), ErrUncertain)
	keyGone(t, addrs[1])

	// A dead server is not a taken lock, and a refused connection leaves nothing behind.
	err := env.Err(l.TryLock(ctx))
	requireFails(t, err, not{ErrNotAcquired}, not{ErrUncertain}, "node 0", "node 2")
	require.ErrorAs(t, err, new(*net.OpError))
	keyGone(t, addrs[1])
}

// A node without the key is outvoted and gets it at the next renewal, whether it lost its data or another holder had it
// at first; the key of another holder stays. Two nodes that lose their data before the next renewal end the hold. If no
// contender has a majority, all fail and leave nothing behind.
// Source: go-redsync/redsync#186, go-redsync/redsync#147.
func TestBareQuorumIsCompleted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	addrs := startServers(t, 3)
	first, second, third := newClient(t, addrs[0]), newClient(t, addrs[1]), newClient(t, addrs[2])
	l := newRedLocks(t, addrs, WithWatchdogLease(6*time.Second)).Lock("a")
	require.NoError(t, third.Set(ctx, RedLockKey("a"), "another", 0).Err())
	require.NoError(t, second.Set(ctx, RedLockKey("a"), "a third", 0).Err())
	env.Fails(l.TryLock(ctx))(t, ErrNotAcquired)
	require.Zero(t, first.DBSize(ctx).Val())
	require.NoError(t, second.Del(ctx, RedLockKey("a")).Err())
	h := env.Must(l.TryLock(ctx))(t)

	began := h.ValidUntil()
	eventually(t, "renewed", func() bool { return h.ValidUntil().After(began) })
	require.Equal(t, "another", third.Get(ctx, RedLockKey("a")).Val(), "the key of another holder stays")
	require.NoError(t, third.Del(ctx, RedLockKey("a")).Err())
	eventually(t, "the node has the key", func() bool { return third.Exists(ctx, RedLockKey("a")).Val() == 1 })
	require.NoError(t, first.FlushAll(ctx).Err())
	env.Fails(newRedLocks(t, addrs).Lock("a").TryLock(ctx))(t, ErrNotAcquired)
	eventually(t, "it has the key again", func() bool { return first.Exists(ctx, RedLockKey("a")).Val() == 1 })

	eventually(t, "both have no key at a renewal", func() bool {
		require.NoError(t, first.FlushAll(ctx).Err())
		require.NoError(t, second.FlushAll(ctx).Err())
		return h.Context().Err() != nil
	})
	requireDone(t, h.Context(), ErrLost)
	require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
	keyGone(t, addrs...)
}

// A release that reached one node at the first attempt and the others at the second is one release.
func TestReleaseInParts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	addrs := startServers(t, 3)
	first, second := env.StartProxy(t, addrs[0]), env.StartProxy(t, addrs[1])
	l := newRedLocks(t, []string{first.Addr, second.Addr, addrs[2]}).Lock("a")
	require.NoError(t, TryDo(ctx, l, nothing))
	h := env.Must(l.TryLock(ctx))(t)
	first.Inject(servers.Refuse, scriptCmd, 1)
	second.Inject(servers.DropReply, scriptCmd, 1)
	require.NoError(t, h.Release(ctx))
	keyGone(t, addrs...)
}

// The node timeout holds for clients with their default timeouts and retries. After it the node gets only PINGs, and no
// holder waits for it, until it answers again. A node that answers late is treated in the same way.
func TestSlowNodeIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(server *env.Redis, link *servers.Proxy) (heal func() error){
		"hangs": func(server *env.Redis, _ *servers.Proxy) func() error {
			require.NoError(t, server.Pause())
			return server.Resume
		},
		"slow": func(_ *env.Redis, link *servers.Proxy) func() error {
			link.Delay(time.Second)
			return func() error { link.Delay(0); return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			last := env.StartRedis(t)
			link := env.StartProxy(t, last.Addr)
			var clients []redis.UniversalClient
			for _, addr := range append(startServers(t, 2), link.Addr) {
				clients = append(clients, servers.NewClient(t, &redis.Options{Addr: addr})) // read timeout 5 s, 3 retries
			}
			l := env.Must(NewRedLock("a", clients, WithNodeTimeout(3*time.Second)))(t)
			require.NoError(t, TryDo(ctx, l, nothing))

			heal := begin(last, link)
			for range 20 {
				require.NoError(t, TryDo(ctx, l, nothing))
			}
			require.NoError(t, heal())
			rdb := newClient(t, last.Addr)
			require.LessOrEqual(t, calls(t, rdb, "set"), 2, "one cycle before the fault, and one in it")

			eventually(t, "the node is asked again", func() bool {
				before := calls(t, rdb, "set")
				require.NoError(t, TryDo(ctx, l, nothing))
				return calls(t, rdb, "set") > before
			})
			keyGone(t, last.Addr)
		})
	}
}

// Slow nodes are not left out if the others, or those of them that live, are no majority.
func TestSlowNodesOfAQuorum(t *testing.T) {
	t.Parallel()
	slow := func(t *testing.T) string {
		link := env.StartProxy(t, startServer(t))
		link.Delay(400 * time.Millisecond)
		return link.Addr
	}
	dead := env.StartRedis(t)
	dead.Kill()

	for _, second := range []string{slow(t), dead.Addr} {
		l := newRedLocks(t, []string{slow(t), second, startServer(t)}, WithNodeTimeout(3*time.Second)).Lock("a")
		for range 3 {
			require.NoError(t, TryDo(context.Background(), l, nothing))
		}
	}
}

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
