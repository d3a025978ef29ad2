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

// rwOccupancy records the current holders, as observed by the players.
type rwOccupancy struct {
	t                *testing.T
	readers, writers atomic.Int32
	last             atomic.Uint64 // writer's token
	uses, downgrades atomic.Int32
	cut, crashed     atomic.Int32
	together         atomic.Int32 // readers that met another
}

// An rwPlayer uses one lock in all ways and cancels its calls at random moments.
type rwPlayer struct {
	*rwOccupancy
	rng *rand.Rand
	m   *RWMutex
	ctx context.Context // of the whole test, with an owner
}

// play acquires the lock once in some way. An attempt that is not cut short on purpose must succeed.
func (p *rwPlayer) play() {
	side, write := p.m.Read(), p.rng.IntN(3) == 0
	if write {
		side = p.m.Write()
	}
	ctx, cut, cancel := p.wait()
	defer cancel()
	lock := side.Lock
	if p.rng.IntN(5) == 0 {
		lock, cut = side.TryLock, true
	}
	var opts []Option
	crash := p.rng.IntN(150) == 0 // 300 ms in which the lock is blocked
	if crash {
		opts = append(opts, WithLease(300*time.Millisecond))
	}
	h, err := lock(ctx, opts...)
	if crash && errors.Is(err, errTooLate) {
		return // the machine stalled, and the hold must not be used
	}
	if err != nil {
		p.cut.Add(1)
		assert.ErrorIs(p.t, err, ErrNotAcquired)
		assert.True(p.t, cut, "%v", err)
		return
	}
	p.uses.Add(1)
	if crash { // it neither works nor releases
		p.crashed.Add(1)
		return
	}
	if write {
		h = p.writing(h)
	} else {
		p.reading(h)
	}
	if h == nil {
		return
	}
	p.readers.Add(-1)
	p.release(h)
}

// wait returns a ctx for one call, which may end soon.
func (p *rwPlayer) wait() (ctx context.Context, cut bool, cancel func()) {
	if p.rng.IntN(4) > 0 {
		return p.ctx, false, func() {}
	}
	ctx, cancel = context.WithTimeout(p.ctx, time.Duration(p.rng.IntN(4000))*time.Microsecond)
	return ctx, true, cancel
}

// writing is the work of a writer. It returns nil or a read hold.
func (p *rwPlayer) writing(h *Hold) *Hold {
	assert.EqualValues(p.t, 1, p.writers.Add(1))
	assert.Zero(p.t, p.readers.Load())
	assert.Greater(p.t, h.Token(), p.last.Swap(h.Token()))
	if p.rng.IntN(3) == 0 {
		p.again(h, p.m.Write())
	}
	p.pause()
	assert.Zero(p.t, p.readers.Load())
	assert.EqualValues(p.t, 1, p.writers.Load())
	p.writers.Add(-1)
	if p.rng.IntN(2) == 0 {
		p.release(h)
		return nil
	}
	p.readers.Add(1) // some may be admitted before the downgrade returns
	ctx, cut, cancel := p.wait()
	defer cancel()
	r, err := p.m.Downgrade(ctx, h)
	if err != nil {
		assert.True(p.t, cut, "%v", err)
		assert.ErrorIs(p.t, err, ctx.Err())
		p.readers.Add(-1)
		p.release(h)
		return nil
	}
	p.downgrades.Add(1)
	assert.NoError(p.t, h.Release(p.ctx))
	p.readers.Add(-1) // reading counts the hold again
	p.reading(r)
	return r
}

// reading is the work of a reader, which stays counted.
func (p *rwPlayer) reading(h *Hold) {
	if p.readers.Add(1) > 1 {
		p.together.Add(1)
	}
	assert.Zero(p.t, p.writers.Load())
	assert.GreaterOrEqual(p.t, h.Token(), p.last.Load())
	if p.rng.IntN(3) == 0 {
		_, err := p.m.Write().Lock(p.ctx)
		assert.ErrorIs(p.t, err, ErrUpgrade)
	}
	p.pause()
	assert.Zero(p.t, p.writers.Load())
	assert.GreaterOrEqual(p.t, h.Token(), p.last.Load())
}

// again acquires a side, or reads, while h is held.
func (p *rwPlayer) again(h *Hold, side Locker) {
	if p.rng.IntN(2) == 0 {
		side = p.m.Read()
	}
	more, err := side.Lock(p.ctx)
	if assert.NoError(p.t, err) {
		assert.Equal(p.t, h.Token(), more.Token())
		p.release(more)
	}
}

func (p *rwPlayer) pause() { time.Sleep(time.Duration(p.rng.IntN(300)) * time.Microsecond) }

// release releases, now and then without waiting for the reply.
func (p *rwPlayer) release(h *Hold) {
	ctx, cut, cancel := p.wait()
	defer cancel()
	err := h.Release(ctx)
	assert.True(p.t, err == nil || cut && errors.Is(err, ErrUncertain), "%v", err)
}

// Thirty players for a while: at every moment the lock is in the state that they observe, and in the end nothing is
// left.
func TestRWRandomUse(t *testing.T) {
	testenv.Full(t)
	onSingleServers(t, func(t *testing.T, addr string) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		clients := []*Client{newLocks(t, addr), newLocks(t, addr), newLocks(t, addr)}
		for _, c := range clients {
			c.exec.timeout = longTimeout // tolerates a busy machine
		}
		occupancy := &rwOccupancy{t: t}
		all, cancel := context.WithTimeout(context.Background(), 3*longTimeout)
		defer cancel()
		stop := time.Now().Add(4 * time.Second)
		var wg sync.WaitGroup
		for i := range 30 {
			p := &rwPlayer{rwOccupancy: occupancy, rng: rand.New(rand.NewPCG(seed, uint64(i))), m: clients[i%3].RW("a")}
			wg.Go(func() {
				for time.Now().Before(stop) || occupancy.uses.Load() < 200 {
					p.ctx = WithOwner(all, NewOwner()) // not the owner that crashed a moment ago
					p.play()
				}
			})
		}
		wg.Wait()
		require.NoError(t, all.Err())
		t.Logf("%d uses, %d downgrades, %d crashes, %d cut short",
			occupancy.uses.Load(), occupancy.downgrades.Load(), occupancy.crashed.Load(), occupancy.cut.Load())
		assert.Positive(t, occupancy.together.Load())
		assert.Positive(t, occupancy.downgrades.Load())
		assert.Positive(t, occupancy.cut.Load())
		nothingLeft(t, newClient(t, addr))
	})
}
