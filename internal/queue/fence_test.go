package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/admission"
	"seckill/internal/domain"
	"seckill/test/testenv"
)

// suspended starts workers that read order 1 and stop before they commit it, until goOn is called.
func suspended(t *testing.T, r *rig) (goOn func()) {
	read, resume := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	r.start(r.config("a", func(ctx context.Context, as []domain.Admission) []error {
		if once.CompareAndSwap(false, true) {
			close(read)
			<-resume
		}
		return r.commit(ctx, as)
	}))
	r.reserve(1, 1)
	select {
	case <-read:
	case <-time.After(waitLimit):
		require.Fail(t, "no worker has read the entry")
	}
	return func() { close(resume) }
}

// A worker does not commit an admission that Redis has lost, however late it is: the gate that was loaded since may have
// refused its buyer as sold out. It commits those that come after it.
func TestLostAdmissionIsDropped(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 1)
		goOn := suspended(t, r)
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		time.Sleep(2 * time.Millisecond) // no new entry gets the id of a lost one
		r.load(1)
		r.reserve(2, 1)
		goOn()
		r.settled()
		r.requireOrders(2, 1)
		require.Equal(t, 1, r.commitCalls(1))
	})
}

// Redis has lost the gate and not the stream. The worker commits the admission as soon as the gate is loaded, which it
// requests itself, because no buyer may come any more.
func TestAdmissionOfLostGateIsCommitted(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 1)
		goOn := suspended(t, r)
		require.NoError(t, r.gate.Unload(t.Context(), voucher))
		fenced, err := r.FenceGate(t.Context(), voucher, 1) // by a load that has not ended
		require.NoError(t, err)
		require.True(t, fenced)
		goOn()
		r.until("the entry is settled", func() bool { return rdb.XLen(t.Context(), r.stream()).Val() == 0 })
		r.requireOrders(1, 1)
		require.EqualValues(t, 3, r.generation)
	})
}

// Entries of an earlier version name no generation. They are committed if the sale had no load since, or if the gate
// confirms them.
func TestEntryWithoutGeneration(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 10)
		r.reserve(1, 1)
		r.reserve(2, 1)
		for _, m := range rdb.XRange(t.Context(), r.stream(), "-", "+").Val() {
			delete(m.Values, "generation")
			require.NoError(t, rdb.XDel(t.Context(), r.stream(), m.ID).Err())
			require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: r.stream(), Values: m.Values}).Err())
		}
		r.start(r.config("a", r.commit))
		r.settled()
		r.requireOrders(1, 2)
		require.Equal(t, []int{2, 2}, []int{r.commitCalls(1), r.commitCalls(2)})
		r.requireLevel(admission.Level{Stock: 8, Held: 2})
	})
}
