package lock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type ctxKey struct{}

var errWork = errors.New("work failed")

var errNode = errors.New("node is down")

// fakeKeeper replaces the server and behaves as the test prescribes.
type fakeKeeper struct {
	onRenew   func(d time.Duration) (time.Time, error)
	onRelease func() error
	busy      atomic.Bool // a command is in flight
	overlaps  atomic.Int32
	renewals  atomic.Int32
	releases  atomic.Int32
}

func (k *fakeKeeper) command() (done func()) {
	if k.busy.Swap(true) {
		k.overlaps.Add(1)
	}
	return func() { k.busy.Store(false) }
}

func (k *fakeKeeper) renew(_ context.Context, d time.Duration) (time.Time, error) {
	defer k.command()()
	k.renewals.Add(1)
	if k.onRenew != nil {
		return k.onRenew(d)
	}
	return time.Now().Add(d), nil
}

func (k *fakeKeeper) release(context.Context) error {
	defer k.command()()
	k.releases.Add(1)
	if k.onRelease != nil {
		return k.onRelease()
	}
	return nil
}

func (k *fakeKeeper) hold(lease time.Duration) *Hold {
	return newHold(context.Background(), grant{keeper: k, name: "a", token: 7, lease: lease, validUntil: time.Now().Add(lease)})
}

// An extension within bounds changes the lease of later renewals, of which one that fails is repeated.
func TestExtendChangesWatchdogLease(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var lease atomic.Int64
	k := &fakeKeeper{}
	k.onRenew = func(d time.Duration) (time.Time, error) {
		if k.renewals.Load() == 2 {
			return time.Time{}, errNode
		}
		lease.Store(int64(d))
		return time.Now().Add(d), nil
	}
	h := k.hold(time.Hour)
	require.Error(t, h.Extend(ctx, 0))
	require.Error(t, h.Extend(ctx, MaxLease+time.Second))
	assert.Zero(t, k.renewals.Load())

	require.NoError(t, h.Extend(ctx, 3*time.Second))
	extended := h.ValidUntil()
	assert.Less(t, time.Until(extended), 4*time.Second)
	eventually(t, "renewed", func() bool { return h.ValidUntil().After(extended) })
	assert.GreaterOrEqual(t, k.renewals.Load(), int32(3))
	assert.Equal(t, 3*time.Second, time.Duration(lease.Load()))
	require.NoError(t, h.Release(ctx))
}

// A release waits for the renewal in flight, and no renewal follows it.
func TestReleaseWaitsForRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{})
		finish := make(chan struct{})
		k := &fakeKeeper{}
		k.onRenew = func(d time.Duration) (time.Time, error) {
			close(started)
			<-finish
			return time.Now().Add(d), nil
		}

		h := k.hold(1500 * time.Millisecond)
		assert.EqualValues(t, 7, h.Token())
		<-started
		released := make(chan error, 1)
		go func() { released <- h.Release(context.Background()) }()

		requireDone(t, h.Context(), ErrReleased)
		assert.Zero(t, k.releases.Load(), "the release overtook the renewal")

		close(finish)
		require.NoError(t, <-released)
		time.Sleep(time.Hour)
		assert.EqualValues(t, 1, k.renewals.Load(), "renewed after the release")
		assert.EqualValues(t, 1, k.releases.Load())
		assert.Zero(t, k.overlaps.Load())
	})
}

func TestLateRenewalDoesNotReviveHold(t *testing.T) {
	t.Parallel()
	finish := make(chan struct{})
	k := &fakeKeeper{}
	k.onRenew = func(d time.Duration) (time.Time, error) {
		<-finish
		return time.Now().Add(d), nil
	}
	h := k.hold(MinLease)
	requireDone(t, h.Context(), ErrLost)
	close(finish)
	require.ErrorIs(t, h.Extend(context.Background(), time.Minute), ErrNotHeld)
	require.ErrorIs(t, h.Release(context.Background()), ErrNotHeld)
	assert.Zero(t, k.overlaps.Load())
}

func TestFailedExtendAssumesShorterLease(t *testing.T) {
	t.Parallel()
	k := &fakeKeeper{onRenew: func(time.Duration) (time.Time, error) { return time.Time{}, errNode }}
	h := newHold(context.Background(), grant{keeper: k, name: "a", lease: time.Hour, fixed: true, validUntil: time.Now().Add(time.Hour)})
	before := h.ValidUntil()
	require.ErrorIs(t, h.Extend(context.Background(), 2*time.Hour), errNode)
	require.Equal(t, before, h.ValidUntil(), "a longer lease may not have arrived")
	require.ErrorIs(t, h.Extend(context.Background(), 200*time.Millisecond), errNode)
	requireDone(t, h.Context(), ErrLost)
	require.ErrorIs(t, h.Release(context.Background()), ErrNotHeld)
}

func TestReleaseRepeatsUntilAnswered(t *testing.T) {
	t.Parallel()
	k := &fakeKeeper{}
	k.onRelease = func() error {
		if k.releases.Load() < 3 {
			return errNode
		}
		return nil
	}
	require.NoError(t, k.hold(time.Minute).Release(context.Background()))
	assert.EqualValues(t, 3, k.releases.Load())

	k = &fakeKeeper{onRelease: func() error { return errNode }}
	h := k.hold(time.Minute)
	began := time.Now()
	err := h.Release(context.Background())
	require.ErrorIs(t, err, errNode)
	require.ErrorIs(t, err, ErrUncertain)
	require.NotErrorIs(t, err, ErrLost)
	assert.GreaterOrEqual(t, time.Since(began), releaseWindow)
	assert.Less(t, k.releases.Load(), int32(80), "the wait between attempts grows")
	k.onRelease = nil
	require.NoError(t, h.Release(context.Background()), "a release that failed may be repeated")

	k = &fakeKeeper{onRelease: func() error { return errNode }}
	require.ErrorAs(t, k.hold(time.Minute).do(context.Background(), nothing), new(*UnlockError))
}

func TestMarginAndBackoff(t *testing.T) {
	t.Parallel()
	assert.Equal(t, time.Second, margin(DefaultLease))
	assert.Equal(t, 5*time.Millisecond, margin(MinLease))
	assert.Equal(t, 10*time.Second, renewIn(DefaultLease, DefaultLease-time.Second))
	assert.Equal(t, time.Second, renewRetryInterval(DefaultLease))
	for try := range 100 {
		d := backoff(try)
		assert.GreaterOrEqual(t, d, 20*time.Millisecond)
		assert.Less(t, d, 200*time.Millisecond)
	}
}
