package lock

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

const always = 1 << 30

// proxied returns a lock behind a proxy. The connection is open and the script is loaded, so that the next requests are
// those of the lock.
func proxied(t *testing.T, addr string, opts ...RedLockOption) (Locker, *proxy) {
	t.Helper()
	p := startProxy(t, addr)
	l := newLock(t, "a", []string{p.Addr}, opts...)
	require.NoError(t, TryDo(context.Background(), l, func(context.Context) error { return nil }))
	return l, p
}

func TestAcquireReplyLost(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		l, p := proxied(t, addr)
		for _, lock := range []func(context.Context, ...Option) (*Hold, error){l.TryLock, l.Lock} {
			p.Inject(dropReply, setCmd, 1)
			_, err := lock(ctx)
			require.ErrorIs(t, err, io.EOF)
			require.NotErrorIs(t, err, ErrNotAcquired, "a failing server does not mean that the lock is taken")
			require.NotErrorIs(t, err, ErrUncertain, "the acquire was undone")
			require.Equal(t, 1, p.Broken())
			require.Zero(t, newClient(t, addr).Exists(ctx, "redlock:{a}").Val())
		}
	})
}

// A client that retries would find its own key and report the lock as taken.
func TestAcquireReplyLostWithRetryingClient(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		p := startProxy(t, addr)
		rdb := redis.NewClient(&redis.Options{Addr: p.Addr}) // MaxRetries 3, no ContextTimeoutEnabled
		defer func() { _ = rdb.Close() }()
		l, err := NewRedLock("a", []redis.UniversalClient{rdb}, WithNodeTimeout(MaxNodeTimeout))
		require.NoError(t, err)
		p.Inject(dropReply, setCmd, 1)
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, io.EOF)
		require.Zero(t, newClient(t, addr).Exists(ctx, "redlock:{a}").Val())

		h, err := l.TryLock(ctx)
		require.NoError(t, err)
		p.Inject(dropReply, scriptCmd, 1)
		require.NoError(t, h.Release(ctx))
		require.Zero(t, newClient(t, addr).Exists(ctx, "redlock:{a}").Val())
	})
}

// Neither the acquire nor its undo is answered: the error is ErrUncertain, and the lock is undone later.
func TestUndoAfterServerRecovers(t *testing.T) {
	testenv.Full(t)
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		var seen recorder
		l, p := proxied(t, addr, WithRedLockObserver(seen.observe))
		p.Inject(dropReply, setCmd, 1)
		_, err := l.TryLock(ctx)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, 1, seen.count(EventFailed))

		p.Inject(muteReply, setCmd, 1)
		h, err := l.TryLock(ctx)
		require.Error(t, err, "%v", h)
		require.NotErrorIs(t, err, ErrUncertain, "the undo succeeded on another connection")

		p.Inject(muteReply, anyCmd, always)
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, ErrUncertain)
		require.NotErrorIs(t, err, ErrNotAcquired)
		require.Equal(t, 1, seen.count(EventUncertain))
		p.Heal()
		keyGone(t, addr, "a")
	})
}

func TestReleaseReplyLost(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		var seen recorder
		l, p := proxied(t, addr, WithRedLockObserver(seen.observe))
		h, err := l.TryLock(ctx)
		require.NoError(t, err)
		p.Inject(dropReply, scriptCmd, 2)
		require.NoError(t, h.Release(ctx), "the first release deleted the key; the repeated one found nothing")
		require.Equal(t, 2, p.Broken())
		require.Zero(t, newClient(t, addr).Exists(ctx, "redlock:{a}").Val())
		assert.Equal(t, 2, seen.count(EventReleased))
		assert.Zero(t, seen.count(EventLost))
	})
}

func TestReleaseUnreachable(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		l, p := proxied(t, addr)
		h, err := l.TryLock(ctx)
		require.NoError(t, err)
		p.Inject(refuse, anyCmd, always)
		err = h.Release(ctx)
		require.ErrorIs(t, err, ErrUncertain)
		require.NotErrorIs(t, err, ErrNotHeld)
		requireDone(t, h.Context(), ErrReleased)
		p.Heal()
		require.NoError(t, h.Release(ctx), "a release that failed may be repeated")
		require.Zero(t, newClient(t, addr).Exists(ctx, "redlock:{a}").Val())
	})
}

// The caller's context ends while the server is silent. The node timeout is far above the bound, so it cannot end
// the call.
func TestCancelDuringCommandReturnsAtOnce(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		l, p := proxied(t, addr, WithNodeTimeout(MaxNodeTimeout))
		h, err := l.TryLock(context.Background())
		require.NoError(t, err)
		p.Inject(muteReply, anyCmd, always)
		calls := map[string]func(context.Context) error{
			"extend":  func(ctx context.Context) error { return h.Extend(ctx, time.Minute) },
			"trylock": func(ctx context.Context) error { _, err := l.TryLock(ctx); return err },
			"lock":    func(ctx context.Context) error { _, err := l.Lock(ctx); return err },
			"release": h.Release,
		}
		for _, name := range []string{"trylock", "lock", "extend", "release"} {
			err := cancelled(t, calls[name])
			require.ErrorIs(t, err, ErrUncertain, name)
			if name == "lock" || name == "trylock" {
				require.ErrorIs(t, err, ErrNotAcquired, name)
			}
		}
		p.Heal()
		keyGone(t, addr, "a")
	})
}

// An acquire that is answered after its caller has returned is released.
func TestCancelledAcquireIsReleased(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	l := newLock(t, "a", []string{server.Addr}, WithNodeTimeout(MaxNodeTimeout))
	require.NoError(t, TryDo(context.Background(), l, func(context.Context) error { return nil }))
	require.NoError(t, server.Pause())
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := l.TryLock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, server.Resume())
	eventually(t, "the lock is free", func() bool {
		h, err := l.TryLock(context.Background())
		if err == nil {
			require.NoError(t, h.Release(context.Background()))
		}
		return err == nil
	})
}

func TestContextEndsBeforeServerFreesLock(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		const lease = 12 * time.Second // leaves 0.7 s from the end of the hold to that of the key
		var seen recorder
		l, p := proxied(t, addr, WithWatchdogLease(lease), WithRedLockObserver(seen.observe))
		direct := newClient(t, addr)
		began := time.Now()
		h, err := l.TryLock(ctx)
		require.NoError(t, err)
		require.WithinRange(t, h.ValidUntil(), began, time.Now().Add(lease-drift(lease)))
		p.Inject(refuse, scriptCmd, always) // so no renewal is executed
		requireDone(t, h.Context(), ErrLost)
		assert.EqualValues(t, 1, direct.Exists(ctx, "redlock:{a}").Val(), "the server freed the lock first")
		assert.Greater(t, seen.count(EventRenewFailed), 1, "a failed renewal is repeated")
		eventually(t, "observed", func() bool { return seen.count(EventLost) == 1 })

		p.Heal()
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		require.ErrorIs(t, h.Release(ctx), nil)
		keyGone(t, addr, "a")
	})
}

// A server that hangs, rather than refuses, does not delay the end of a hold.
func TestContextEndsWhileServerHangs(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	const lease = 2 * time.Second
	l := newLock(t, "a", []string{server.Addr}, WithWatchdogLease(lease), WithNodeTimeout(MaxNodeTimeout))
	h, err := l.TryLock(context.Background())
	require.NoError(t, err)
	require.NoError(t, server.Pause())
	requireDone(t, h.Context(), ErrLost)
	require.NoError(t, server.Resume())
	require.ErrorIs(t, h.Release(context.Background()), ErrNotHeld)
	keyGone(t, server.Addr, "a")
}

func TestFailedRenewalsAreRetried(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		var seen recorder
		l, p := proxied(t, addr, WithWatchdogLease(6*time.Second), WithRedLockObserver(seen.observe))
		h, err := l.TryLock(ctx)
		require.NoError(t, err)
		first := h.ValidUntil()
		p.Inject(dropReply, anyCmd, always)
		eventually(t, "two renewals failed", func() bool { return seen.count(EventRenewFailed) >= 2 })
		p.Heal()
		eventually(t, "renewed", func() bool { return h.ValidUntil().After(first) })
		require.NoError(t, h.Context().Err())
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, h.Release(ctx))
		assert.Zero(t, seen.count(EventLost))
	})
}

func TestDeadServerReturnsItsError(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	var seen recorder
	l, kill := newMortalLock(t, "a", []*testenv.Redis{server}, WithRedLockObserver(seen.observe))
	h, err := l.TryLock(context.Background())
	require.NoError(t, err)
	kill[0]()
	_, err = l.TryLock(context.Background())
	require.Error(t, err)
	_, err = l.TryLock(context.Background())
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.False(t, errors.Is(err, ErrNotAcquired), "a dead server is not a taken lock: %v", err)
	require.False(t, errors.Is(err, ErrUncertain), "a refused connection leaves nothing behind: %v", err)
	require.ErrorIs(t, h.Release(context.Background()), ErrUncertain)
}
