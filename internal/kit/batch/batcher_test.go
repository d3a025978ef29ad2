package batch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is a result: the item, the size of its batch, and the error.
type answer struct {
	item, size int
	err        error
}

func newTestBatcher(maxKeys int, run func(batch []int)) *Batcher[int, answer] {
	return New(Config[int, answer]{MaxKeys: maxKeys, Fail: func(err error) answer { return answer{err: err} }, Run: func(_ context.Context, batch []int) []answer {
		run(batch)
		results := make([]answer, len(batch))
		for i, item := range batch {
			results[i] = answer{item: item, size: len(batch)}
		}
		return results
	}})
}

// submit calls the Batcher once per item, in this order, each from its own goroutine. The channel receives the results.
func submit(b *Batcher[int, answer], key int64, items ...int) <-chan answer {
	answers := make(chan answer, len(items))
	for _, item := range items {
		go func() { answers <- b.Do(key, item, time.Now().Add(time.Hour)) }()
		synctest.Wait()
	}
	return answers
}

// A call that arrives alone runs at once. Calls that arrive while a batch runs share the next one.
func TestNextBatchFormsWhileOneRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBatcher(1, func([]int) { time.Sleep(slowRun / 2) })
		start := time.Now()
		first := submit(b, 1, 10)
		rest := submit(b, 1, 20, 21, 22)
		require.Equal(t, answer{item: 10, size: 1}, <-first)
		require.Equal(t, slowRun/2, time.Since(start), "a single call does not wait")
		for range 3 {
			require.Equal(t, 3, (<-rest).size)
		}
		require.Equal(t, slowRun, time.Since(start))
		synctest.Wait()
		require.Empty(t, b.queues, "an idle queue is removed")
	})
}

// With many waiting calls a second batch runs beside the first, but never a third.
func TestSecondBatchRunsAboveThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		b := newTestBatcher(1, func([]int) {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(slowRun / 2)
			running.Add(-1)
		})
		submit(b, 1, 0)
		few := submit(b, 1, make([]int, secondBatchThreshold)...)
		synctest.Wait()
		require.EqualValues(t, 1, running.Load(), "a small batch waits for the first to end")
		more := submit(b, 1, make([]int, 3*secondBatchThreshold)...)
		require.EqualValues(t, 2, running.Load())
		for range secondBatchThreshold {
			<-few
		}
		for range 3 * secondBatchThreshold {
			<-more
		}
		require.EqualValues(t, 2, most.Load())
		time.Sleep(gatherFor)
		synctest.Wait()
		require.Empty(t, b.queues)
	})
}

func TestBatchSizeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBatcher(1, func([]int) { time.Sleep(time.Millisecond) })
		submit(b, 1, 0)
		submit(b, 1, make([]int, secondBatchThreshold+1)...) // both run now
		answers := submit(b, 1, make([]int, maxBatch+1)...)
		sizes := map[int]int{}
		for range maxBatch + 1 {
			sizes[(<-answers).size]++
		}
		require.Equal(t, map[int]int{maxBatch: maxBatch, 1: 1}, sizes)
		time.Sleep(gatherFor)
	})
}

// Calls fail early if the queue is full, or if their batch did not start in time.
func TestFullQueueAndLateStartFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBatcher(1, func([]int) { time.Sleep(StartTimeout + time.Second) })
		first := submit(b, 1, 1)
		late := submit(b, 1, 2)
		time.Sleep(2 * time.Second)
		inTime := submit(b, 1, 3)
		require.NoError(t, (<-first).err)
		require.ErrorIs(t, (<-late).err, ErrTimeout)
		require.NoError(t, (<-inTime).err)

		submit(b, 1, 4)
		many := make([]*call[int, answer], maxWaiting)
		for i := range many {
			many[i] = &call[int, answer]{since: time.Now(), done: make(chan struct{}, 1)}
		}
		b.mu.Lock()
		b.queues[1].waiting = many
		b.mu.Unlock()
		require.ErrorIs(t, b.Do(1, 5, time.Now().Add(time.Hour)).err, ErrFull)
		time.Sleep(time.Minute)
	})
}

// A call that reached its deadline keeps its late result to itself, though later calls reuse the memory of earlier ones.
func TestLateResultReachesNoOtherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBatcher(1, func([]int) { time.Sleep(2 * time.Second) })
		inOneSecond := map[string]func() answer{
			"deadline": func() answer { return b.Do(1, 1, time.Now().Add(time.Second)) },
			"context": func() answer {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return b.DoContext(ctx, 1, 1)
			},
		}
		for name, late := range inOneSecond {
			for range 10 { // the pool may give a call to another processor
				require.ErrorIs(t, late().err, ErrTimeout, name)
				other := b.Do(2, 2, time.Now().Add(time.Minute))
				require.NoError(t, other.err, name)
				require.Equal(t, 2, other.item, name)
			}
		}
	})
}

// Every key has batches of its own until maxRunning batches run. Then waiting keys share a batch, except keys of which
// a batch runs already.
func TestKeysShareABatchWhenAllRun(t *testing.T) {
	for _, maxKeys := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var batches [][]int
			b := newTestBatcher(maxKeys, func(batch []int) {
				mu.Lock()
				batches = append(batches, slices.Sorted(slices.Values(batch)))
				mu.Unlock()
				if batch[0] == 0 {
					time.Sleep(time.Second)
				}
				time.Sleep(time.Duration(10+batch[0]%1000) * time.Millisecond)
			})
			for key := range int64(maxRunning) {
				submit(b, key, int(key))
			}
			mu.Lock()
			require.Len(t, batches, maxRunning)
			for i, got := range batches {
				require.Equal(t, []int{i}, got, "a batch of its own as long as there are permits")
			}
			mu.Unlock()
			busy := submit(b, 0, 100)
			var others []<-chan answer
			for key := range int64(2 * maxKeys) {
				others = append(others, submit(b, 1000+key, 1000+int(key)))
			}
			for _, answers := range others {
				require.Equal(t, maxKeys, (<-answers).size)
			}
			time.Sleep(500 * time.Millisecond)
			require.Empty(t, busy, "its key has a running batch")
			time.Sleep(2 * time.Second)
			require.Equal(t, answer{item: 100, size: 1}, <-busy)
			synctest.Wait()
			require.Empty(t, b.queues)
		})
	}
}

// More keys than batches may run hang at once. Others lose the batch that they share with them, and then wait for none of
// them. Keys that hang no longer are as quick as the others.
func TestKeysThatHangDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, hanging = 40, 2 * maxRunning
		begin := time.Now()
		hangEnd := begin.Add(time.Minute)
		end := hangEnd.Add(time.Minute)
		b := newTestBatcher(keys, func(batch []int) {
			if time.Now().Before(hangEnd) && slices.Min(batch) < hanging {
				time.Sleep(runTimeout)
			}
			time.Sleep(10 * time.Millisecond)
		})

		var others, afterwards atomic.Int64 // calls that took as long as a slow batch
		var callers sync.WaitGroup
		for key := range keys {
			callers.Go(func() {
				for time.Now().Before(end) {
					began := time.Now()
					b.Do(int64(key), key, began.Add(time.Hour))
					switch {
					case time.Since(began) < slowRun:
					case began.After(hangEnd):
						afterwards.Add(1)
					case key >= hanging && began.After(begin.Add(3*runTimeout)):
						others.Add(1)
					}
				}
			})
		}
		callers.Wait()
		require.Zero(t, others.Load())
		require.Zero(t, afterwards.Load())
		time.Sleep(gatherFor)
		synctest.Wait()
		require.Empty(t, b.queues)
	})
}

func TestPanicFailsItsBatchOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBatcher(1, func(batch []int) {
			if batch[0] == 13 {
				panic("unlucky")
			}
		})
		require.ErrorContains(t, (<-submit(b, 1, 13)).err, "unlucky")
		require.NoError(t, (<-submit(b, 1, 14)).err)
	})
}

// After a large batch the next one waits for as many calls again, for a bounded time. A single call waits for nothing.
func TestGathersAfterALargeBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBatcher(1, func([]int) { time.Sleep(time.Millisecond) })
		size := func(answers <-chan answer) int { return (<-answers).size }
		const many = 20
		start := time.Now()
		require.Equal(t, 1, size(submit(b, 1, 0)))
		require.Equal(t, time.Millisecond, time.Since(start))

		first, rest := submit(b, 1, 0), submit(b, 1, make([]int, many)...)
		require.Equal(t, 1, size(first))
		require.Equal(t, many, size(rest))
		synctest.Wait() // until the Batcher gathers: it then waits for more calls than it found
		early := submit(b, 1, 0)
		time.Sleep(gatherFor / 2)
		later := submit(b, 1, make([]int, many)...)
		require.Equal(t, many*9/10, size(early), "it begins as soon as there are enough")
		require.Equal(t, many*9/10, size(later))

		time.Sleep(time.Second)
		first, rest = submit(b, 1, 0), submit(b, 1, make([]int, many)...)
		<-first
		<-rest
		start = time.Now()
		require.Equal(t, 1, size(submit(b, 1, 0)))
		require.Equal(t, gatherFor+time.Millisecond, time.Since(start), "the other calls did not arrive")
		time.Sleep(time.Second)
		start = time.Now()
		require.Equal(t, 1, size(submit(b, 1, 0)))
		require.Equal(t, time.Millisecond, time.Since(start))
	})
}

// More calls arrive after the queue was full enough and before its batch is taken.
func TestGatheringEndsOnce(t *testing.T) {
	b := newTestBatcher(1, func([]int) {})
	q := &queue[int, answer]{serving: 2, full: make(chan struct{}), want: 2}
	b.queues[1] = q
	full := q.full
	for range 2 {
		require.NotNil(t, b.enqueue(1, 0))
	}
	<-full
	q.waiting = q.waiting[:0] // another batch has taken them
	for range 4 {
		require.NotNil(t, b.enqueue(1, 0))
	}
	require.Len(t, q.waiting, 4)
}

// A Run that returns too few results fails the calls that are left over instead of blocking them.
func TestMissingResultsFailTheirCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config[int, error]{
			Run: func(_ context.Context, items []int) []error {
				time.Sleep(time.Second)
				return make([]error, len(items)-1)
			},
			Fail: func(err error) error { return err },
		})
		var calls sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			calls.Go(func() { errs[i] = b.Do(1, i, time.Now().Add(time.Hour)) })
			synctest.Wait()
		}
		calls.Wait()
		require.ErrorContains(t, errs[0], "0 results for 1 items")
		require.NoError(t, errs[1])
		require.NoError(t, errs[2])
		require.ErrorContains(t, errs[3], "2 results for 3 items")
	})
}
