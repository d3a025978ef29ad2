package lock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
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

const (
	// longTimeout bounds waits for events that are expected soon, even on a busy machine.
	longTimeout = 20 * time.Second

	// patience is the timeout of commands in tests, which no machine should need.
	patience = MaxNodeTimeout
)

// soon returns a context with a long timeout, for a test's calls, each of which should return quickly.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*longTimeout)
	t.Cleanup(cancel)
	return ctx
}

func owned(t testing.TB) context.Context {
	t.Helper()
	return WithOwner(soon(t), NewOwner())
}

// requireFails requires an error that is each of the errors wanted, has each of the texts, and is none of what it must not be.
func requireFails(t testing.TB, err error, wants ...any) {
	t.Helper()
	require.Error(t, err)
	for _, want := range wants {
		switch want := want.(type) {
		case not:
			require.NotErrorIs(t, err, want.error)
		case string:
			require.ErrorContains(t, err, want)
		default:
			require.ErrorIs(t, err, want.(error))
		}
	}
}

// not is an error that another one must not be, see requireFails.
type not struct{ error }

func release(t testing.TB, holds ...*Hold) {
	t.Helper()
	for _, h := range holds {
		require.NoError(t, h.Release(context.Background()))
	}
}

// releaseAnswered is release if the first replies are lost. The machine may stall for longer than a release is repeated.
func releaseAnswered(t testing.TB, h *Hold) {
	t.Helper()
	var err error
	eventually(t, "an answer", func() bool {
		err = h.Release(context.Background())
		return !errors.Is(err, ErrUncertain)
	})
	require.NoError(t, err)
}

func bothWays(l Locker) []func(context.Context, ...Option) (*Hold, error) {
	return []func(context.Context, ...Option) (*Hold, error){l.TryLock, l.Lock}
}

func background(ctx context.Context, l Locker, opts ...Option) <-chan outcome {
	return env.Go(func() outcome {
		h, err := l.Lock(ctx, opts...)
		return outcome{h, err}
	})
}

type outcome struct {
	hold *Hold
	err  error
}

// arrived returns the hold of a background Lock that must succeed.
func arrived(t testing.TB, got <-chan outcome) *Hold {
	t.Helper()
	o := <-got
	require.NoError(t, o.err)
	return o.hold
}

// persistent repeats a failed Lock, as a client of a server that restarts must: the outcome of a command that was on its way
// is uncertain, and a queued waiter may not have received the answer that queued it.
type persistent struct{ Locker }

func (p persistent) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	h, err := p.Locker.Lock(ctx, opts...)
	for ; err != nil && ctx.Err() == nil; h, err = p.Locker.Lock(ctx, opts...) {
	}
	return h, err
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 5*longTimeout, 2*time.Millisecond, what) // on a busy machine one call may take seconds
}

func requireDone(t testing.TB, ctx context.Context, cause error) {
	t.Helper()
	select { // polling could wait without an end in a bubble, whose time stands while a goroutine waits for a mutex
	case <-ctx.Done():
		require.ErrorIs(t, context.Cause(ctx), cause)
	case <-time.After(longTimeout):
		require.FailNow(t, "context has not ended")
	}
}

// requireWoken repeats a scene in which waiters acquire the lock as soon as they can. A waiter that is not woken
// acquires it by its recheck, after 1.3 s: fifty such scenes take longer than a minute, and fail. Fifty others take a
// second or two.
func requireWoken(t testing.TB, scene func(ctx context.Context)) {
	t.Helper()
	const scenes = 50
	ctx, cancel := context.WithTimeout(context.Background(), scenes*recheck*9/10)
	defer cancel()
	for i := range scenes {
		scene(ctx)
		require.NoError(t, ctx.Err(), "after %d scenes", i)
	}
}

// cancelled returns the error of a call whose ctx is cancelled while its command is in flight. A call that waits for its
// command instead returns by a timeout, patience, of which half may pass.
func cancelled(t testing.TB, call func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	returned := env.Go(func() error { return call(ctx) })

	time.Sleep(50 * time.Millisecond) // by then the command is in flight
	cancel()
	select {
	case err := <-returned:
		require.ErrorIs(t, err, context.Canceled)
		return err
	case <-time.After(patience / 2):
		require.FailNow(t, "the call waits for its command")
		return nil
	}
}

type recorder struct {
	mu     sync.Mutex
	events []Event
}

func (r *recorder) observe(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) kinds() (kinds []EventKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (r *recorder) count(kind EventKind) int {
	return len(slices.DeleteFunc(r.kinds(), func(k EventKind) bool { return k != kind }))
}

// waiters returns the length of a lock's queue. Both of its keys must agree; a waiter may come or go between the two
// reads, so it repeats them.
func waiters(t testing.TB, rdb *redis.Client, kind, name string) (n int64) {
	t.Helper()
	keys := keysOf(DefaultPrefix, kind, name)
	eventually(t, "queue and waiters have the same length", func() bool {
		n = env.Must(rdb.ZCard(context.Background(), keys[1]).Result())(t)
		return n == env.Must(rdb.HLen(context.Background(), keys[2]).Result())(t)
	})
	return n
}

// allAnswered waits until c has the answers to all its commands. A waiter survives a fault only after the answer that
// queued it.
func allAnswered(t testing.TB, c *Client) {
	t.Helper()
	eventually(t, "answered", func() bool {
		c.exec.mu.Lock()
		defer c.exec.mu.Unlock()
		return c.exec.inFlight == 0 && len(c.exec.queue) == 0
	})
}

// stay keeps all waiters in the queue however long the test takes between their attempts, as live clients' rechecks do.
// It holds until 4 s after a script has looked at an entry, because the server bounds deadlines that are too far away.
func stay(t testing.TB, rdb *redis.Client, kind, name string) {
	t.Helper()
	ctx := context.Background()
	keys := keysOf(DefaultPrefix, kind, name)
	entries := env.Must(rdb.HGetAll(ctx, keys[2]).Result())(t)

	deadline := time.Now().Add(time.Hour).UnixMilli()
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for id, entry := range entries {
			_, wants, _ := strings.Cut(entry, ":")
			pipe.HSet(ctx, keys[2], id, fmt.Sprintf("%d:%s", deadline, wants))
		}
		pipe.Persist(ctx, keys[1])
		pipe.Persist(ctx, keys[2])
		return nil
	})
	require.NoError(t, err)
}

// requireIn acquires once for a claim, and requires the reply.
func requireIn(t testing.TB, cl *claim, want bool) {
	t.Helper()
	require.Equal(t, want, env.Must(cl.acquireOnce(soon(t), modeWait))(t).ok, "granted")
}

// nothingLeft waits until only the given keys and fencing tokens are on the server and no client is subscribed. The
// replies remembered for requests expire.
func nothingLeft(t testing.TB, rdb *redis.Client, except ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.ElementsMatch(c, except, keysLeft(t, rdb), "keys or channels are left")
	}, 5*longTimeout, 20*time.Millisecond)
}

// keysLeft returns the subscribed channels and the keys on the server, without fencing tokens and the replies remembered
// for requests. Thousands of these may exist, so their expiry is read in one round trip.
func keysLeft(t testing.TB, rdb *redis.Client) []string {
	t.Helper()
	ctx := context.Background()
	left := rdb.PubSubChannels(ctx, "*").Val()
	keys := rdb.Keys(ctx, "*").Val()
	pipe := rdb.Pipeline()
	ttls := make([]*redis.DurationCmd, len(keys))
	for i, key := range keys {
		ttls[i] = pipe.PTTL(ctx, key)
	}
	_, _ = pipe.Exec(ctx) // the first of the commands' errors

	for i, key := range keys {
		ttl, err := ttls[i].Result()
		expired := ttl == -2
		remembered := strings.Contains(key, "}:done:") && ttl >= 0 && ttl <= 3*repeatWindow // 0 in its last ms
		if fence := strings.HasSuffix(key, ":"+fenceKey); !fence && (err != nil || !expired && !remembered) {
			left = append(left, key)
		}
	}
	return left
}

// calls returns how often the server has executed a command, including calls from scripts.
func calls(t testing.TB, rdb *redis.Client, name string) (n int) {
	t.Helper()
	stats := env.Must(rdb.InfoMap(context.Background(), "commandstats").Result())(t)
	_, _ = fmt.Sscanf(stats["Commandstats"]["cmdstat_"+name], "calls=%d", &n)
	return n
}

// listenTo returns a function that returns the ids in the wake messages of a client's waiters since its last call.
func listenTo(t testing.TB, addr string, c *Client) (received func() []string) {
	t.Helper()
	rdb := newClient(t, addr)
	sub := rdb.Subscribe(soon(t), c.hub.channel)
	t.Cleanup(func() { _ = sub.Close() })
	env.Must(sub.Receive(soon(t)))(t)

	return func() (ids []string) {
		t.Helper()
		const end = "end"
		require.NoError(t, rdb.Publish(soon(t), c.hub.channel, end).Err())
		for {
			msg := env.Must(sub.ReceiveMessage(soon(t)))(t)
			if msg.Payload == end {
				return ids
			}
			ids = append(ids, msg.Payload)
		}
	}
}

// keyGone waits until the key of the RedLock "a" is gone from the nodes, far sooner than its lease ends.
func keyGone(t testing.TB, addrs ...string) {
	t.Helper()
	for _, addr := range addrs {
		rdb := newClient(t, addr)
		eventually(t, "key is gone", func() bool { return rdb.Exists(context.Background(), RedLockKey("a")).Val() == 0 })
	}
}

func nothing(context.Context) error { return nil }

// quiet drops the libraries' own logs, because tests stop servers on purpose.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

type quietRedis struct{}

func (quietRedis) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quietRedis{})

	// Tests mostly wait, for leases to end and servers to start. -parallel overrides this value.
	_ = flag.Set("test.parallel", "16")

	// Undos of locks on dead servers continue for a while, by design; Main waits for them.
	env.Main(m, stopIdle)
}

// startServer returns the address of an empty server that belongs to the test alone: a real Redis, or miniredis with
// -short.
func startServer(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		return env.StartMiniredis(t).Addr()
	}
	return startRedis(t)
}

func startServers(t testing.TB, n int) []string {
	t.Helper()
	var addrs []string
	for range n {
		addrs = append(addrs, startServer(t))
	}
	return addrs
}

// idle are the servers of tests that have ended, for others: to start one costs more than many a test.
var idle = make(chan *servers.Redis, 64)

// startRedis is startServer for what only a real Redis supports.
func startRedis(t testing.TB) string {
	t.Helper()
	env.Program(t, "redis-server") // or skips the test
	var server *servers.Redis
	select {
	case server = <-idle:
		rdb := newClient(t, server.Addr)
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	default:
		server = env.Must(servers.RunRedis(context.Background()))(t)
	}
	t.Cleanup(func() { idle <- server })
	return server.Addr
}

func stopIdle() error {
	var errs []error
	for len(idle) > 0 {
		errs = append(errs, (<-idle).Stop())
	}
	return errors.Join(errs...)
}

// ownRedis is for a test that stops or configures its server.
func ownRedis(t testing.TB) *env.Redis { return env.StartRedis(t) }

// A scene is a server with what most tests of it use.
type scene struct {
	addr string
	ctx  context.Context // see soon
	rdb  *redis.Client
	c    *Client
}

func onServer(t testing.TB) scene { return newSceneOn(t, startServer(t)) }
func onRedis(t testing.TB) scene  { return newSceneOn(t, startRedis(t)) }

func newSceneOn(t testing.TB, addr string) scene {
	return scene{addr: addr, ctx: soon(t), rdb: newClient(t, addr), c: newLocks(t, addr)}
}

// newScene lets the test run in parallel.
func newScene(t *testing.T) scene {
	t.Parallel()
	return onServer(t)
}

// queue lets l wait for the lock "a" of a kind, and returns when n waiters are in its queue.
func (s scene) queue(ctx context.Context, t testing.TB, k lockKind, n int64, l Locker, opts ...Option) <-chan outcome {
	t.Helper()
	got := background(ctx, l, opts...)
	k.queued(t, s.rdb, "a", n)
	return got
}

// each runs test for each kind, on a server that belongs to that test alone.
func each[S any, K fmt.Stringer](t *testing.T, kinds []K, start func(testing.TB) S, test func(t *testing.T, s S, k K)) {
	t.Helper()
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.String(), func(t *testing.T) {
			t.Parallel()
			test(t, start(t), k)
		})
	}
}

// newClient connects as the package documentation advises. A command ends with its context and not before.
func newClient(t testing.TB, addr string) *redis.Client {
	return servers.NewClient(t, &redis.Options{
		Addr:                  addr,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialerRetries:         1,
		ReadTimeout:           2 * longTimeout,
	})
}

func clientOf(t testing.TB, server *env.Redis) *redis.Client { return server.Client(t).(*redis.Client) }

// newLocks returns a Client on the given server, with connections of its own. It tolerates a machine that stalls.
func newLocks(t testing.TB, addr string, opts ...ClientOption) *Client {
	t.Helper()
	return newLocksOf(t, newClient(t, addr), opts...)
}

func newLocksOf(t testing.TB, rdb redis.UniversalClient, opts ...ClientOption) *Client {
	t.Helper()
	c := env.Must(New(rdb, opts...))(t)
	c.exec.timeout = patience
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// newRedLocks returns RedLocks on the given servers, with a client each. They tolerate a machine that stalls; opts can
// shorten their node timeout.
func newRedLocks(t testing.TB, addrs []string, opts ...RedLockOption) *RedLocks {
	t.Helper()
	nodes := make([]redis.UniversalClient, len(addrs))
	for i, addr := range addrs {
		nodes[i] = newClient(t, addr)
	}
	return env.Must(NewRedLocks(nodes, append([]RedLockOption{WithNodeTimeout(patience)}, opts...)...))(t)
}

// Parts of the commands of a RedLock, as they are on the wire.
const (
	setCmd    = "\r\nnx\r\n"
	scriptCmd = "\r\nevalsha\r\n"
	anyCmd    = ""
)

// afterwards returns a hook that calls f with the commands of each round trip that has ended.
func afterwards(f func(cmds []redis.Cmder)) env.RedisHook {
	return env.RedisHook{
		Command: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			err := next(ctx, cmd)
			if err != nil {
				cmd.SetErr(err) // as go-redis does after the hooks
			}
			f([]redis.Cmder{cmd})
			return err
		},
		Pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
			err := next(ctx, cmds)
			f(cmds)
			return err
		},
	}
}

// trips are the round trips of a client, each with the names of its commands.
type trips struct {
	mu  sync.Mutex
	all [][]string
}

func tripsOf(rdb *redis.Client) *trips {
	t := &trips{}
	rdb.AddHook(afterwards(func(cmds []redis.Cmder) {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.all = append(t.all, names)
	}))
	return t
}

// scripts returns the number of round trips with scripts; opening a connection has others.
func (t *trips) scripts() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, names := range t.all {
		if strings.HasPrefix(names[0], "eval") {
			n++
		}
	}
	return n
}
