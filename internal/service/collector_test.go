package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// answer is the result of a test collector: what was asked, with whom, and the error.
type answer struct {
	item, size int
	err        error
}

func newTestCollector(maxKeys int, run func(batch []int)) *collector[int, answer] {
	return newCollector(maxKeys, func(_ context.Context, batch []int) []answer {
		run(batch)
		results := make([]answer, len(batch))
		for i, item := range batch {
			results[i] = answer{item: item, size: len(batch)}
		}
		return results
	}, func(err error) answer { return answer{err: err} })
}

// ask sends items to the collector, each from its own goroutine and in this order, and returns where the answers come.
func ask(c *collector[int, answer], key int64, items ...int) <-chan answer {
	answers := make(chan answer, len(items))
	for _, item := range items {
		go func() { answers <- c.do(key, item, time.Now().Add(time.Hour)) }()
		synctest.Wait()
	}
	return answers
}

// TestCollectorFormsTheNextBatchMeanwhile: who comes alone is decided at once, and who comes while a batch runs is
// decided with the others by the next one.
func TestCollectorFormsTheNextBatchMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCollector(1, func([]int) { time.Sleep(time.Second) })
		start := time.Now()
		first := ask(c, 1, 10)
		rest := ask(c, 1, 20, 21, 22)
		require.Equal(t, answer{item: 10, size: 1}, <-first)
		require.Equal(t, time.Second, time.Since(start), "nobody waits for company")
		for range 3 {
			require.Equal(t, 3, (<-rest).size)
		}
		require.Equal(t, 2*time.Second, time.Since(start))
		synctest.Wait()
		require.Empty(t, c.queues, "an idle collector goes away")
	})
}

// TestCollectorInACrowd: a second batch runs beside the first, and no third.
func TestCollectorInACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		c := newTestCollector(1, func([]int) {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			running.Add(-1)
		})
		ask(c, 1, 0)
		few := ask(c, 1, make([]int, crowd)...)
		synctest.Wait()
		require.EqualValues(t, 1, running.Load(), "a small batch waits for the first to end")
		more := ask(c, 1, make([]int, 3*crowd)...)
		require.EqualValues(t, 2, running.Load())
		for range crowd {
			<-few
		}
		for range 3 * crowd {
			<-more
		}
		require.EqualValues(t, 2, most.Load())
		time.Sleep(gatherFor)
		synctest.Wait()
		require.Empty(t, c.queues)
	})
}

func TestCollectorBoundsBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCollector(1, func([]int) { time.Sleep(time.Millisecond) })
		ask(c, 1, 0)
		ask(c, 1, make([]int, crowd+1)...) // both run now
		answers := ask(c, 1, make([]int, maxBatch+1)...)
		sizes := map[int]int{}
		for range maxBatch + 1 {
			sizes[(<-answers).size]++
		}
		require.Equal(t, map[int]int{maxBatch: maxBatch, 1: 1}, sizes)
		time.Sleep(gatherFor)
	})
}

// TestCollectorRefusesEarly: those for whom there is no room, and those who have waited too long.
func TestCollectorRefusesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCollector(1, func([]int) { time.Sleep(batchPatience + time.Second) })
		first := ask(c, 1, 1)
		late := ask(c, 1, 2)
		time.Sleep(2 * time.Second)
		inTime := ask(c, 1, 3)
		require.NoError(t, (<-first).err)
		require.ErrorIs(t, (<-late).err, ErrUnavailable)
		require.NoError(t, (<-inTime).err)

		ask(c, 1, 4)
		c.mu.Lock()
		c.queues[1].waiting = make([]*waiter[int, answer], maxWaiting)
		c.mu.Unlock()
		require.ErrorIs(t, c.do(1, 5, time.Now().Add(time.Hour)).err, ErrOverloaded)
		c.mu.Lock()
		c.queues[1].waiting = nil
		c.mu.Unlock()
		time.Sleep(time.Minute)
	})
}

// TestCollectorRunsKeysSideBySide, but not more than there are connections for.
func TestCollectorRunsKeysSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		c := newTestCollector(1, func([]int) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
		})
		var wg sync.WaitGroup
		for key := range int64(maxBatches + 4) {
			wg.Go(func() { c.do(key, 0, time.Now().Add(time.Hour)) })
		}
		start := time.Now()
		wg.Wait()
		require.Equal(t, maxBatches, most)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

// TestCollectorSharesABatchOfManyKeys: as long as there are permits, every key has batches of its own; when they are
// used up, those who wait elsewhere come along, but for the keys of which a batch runs.
func TestCollectorSharesABatchOfManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxKeys = 3
		var mu sync.Mutex
		var batches [][]int
		c := newTestCollector(maxKeys, func(batch []int) {
			mu.Lock()
			batches = append(batches, slices.Sorted(slices.Values(batch)))
			mu.Unlock()
			if batch[0] == 0 {
				time.Sleep(time.Second)
			}
			time.Sleep(time.Duration(10+batch[0]%1000) * time.Millisecond)
		})
		for key := range int64(maxBatches) {
			ask(c, key, int(key))
		}
		mu.Lock()
		for i, b := range batches {
			require.Equal(t, []int{i}, b, "a batch of its own as long as there are permits")
		}
		mu.Unlock()
		busy := ask(c, 0, 100)
		var others []<-chan answer
		for key := range int64(2 * maxKeys) {
			others = append(others, ask(c, 1000+key, 1000+int(key)))
		}
		for _, answers := range others {
			require.Equal(t, maxKeys, (<-answers).size)
		}
		time.Sleep(500 * time.Millisecond)
		require.Empty(t, busy, "its key has a batch that runs")
		time.Sleep(2 * time.Second)
		require.Equal(t, answer{item: 100, size: 1}, <-busy)
		synctest.Wait()
		require.Empty(t, c.queues)
	})
}

// TestCollectorPanic: everybody in the batch hears of it, and the next batch runs.
func TestCollectorPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCollector(1, func(batch []int) {
			if batch[0] == 13 {
				panic("unlucky")
			}
		})
		require.ErrorContains(t, (<-ask(c, 1, 13)).err, "unlucky")
		require.NoError(t, (<-ask(c, 1, 14)).err)
	})
}

// TestBatchLaneAfterItsBuyerLeft: whoever hangs up is decided with the others.
func TestBatchLaneAfterItsBuyerLeft(t *testing.T) {
	placed := 0
	lane := NewBatchLane(&ids{}, &store{place: func(_ context.Context, o Order) (Order, error) { placed++; return o, nil }}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o, _, err := lane.Place(ctx, Purchase{UserID: 7, VoucherID: 1, Limit: 1, Deadline: time.Now().Add(time.Minute)})
	require.NoError(t, err)
	require.Equal(t, int64(7), o.UserID)
	require.Equal(t, 1, placed)
}

// TestBatchLaneMixedOutcomes: in one batch, everybody gets an answer of their own, and a collision of ids costs a
// second round for those concerned only.
func TestBatchLaneMixedOutcomes(t *testing.T) {
	broken := errors.New("broken")
	rounds := 0
	g := &ids{}
	p := placer{ids: g, orders: &store{place: func(_ context.Context, o Order) (Order, error) {
		rounds++
		switch {
		case o.UserID == 1:
			return Order{}, ErrSoldOut
		case o.UserID == 2 && o.ID < 1000:
			return Order{}, ErrIDTaken
		case o.UserID == 3:
			return Order{}, broken
		}
		return o, nil
	}}}
	results := p.place(t.Context(), []Purchase{{UserID: 1}, {UserID: 2}, {UserID: 3}, {UserID: 4}})
	require.ErrorIs(t, results[0].Err, ErrSoldOut)
	require.Equal(t, "2 1003 <nil>", fmt.Sprint(results[1].Order.UserID, results[1].Order.ID, results[1].Err))
	require.ErrorIs(t, results[2].Err, broken)
	require.NoError(t, results[3].Err)
	require.Equal(t, 5, rounds)
	require.Equal(t, []int{4, 1}, g.blocks, "one round trip a batch")
}

// TestFreshIDOfTheBuyersOwnOrder: the counter is lost between two clicks within a millisecond, and the second gets the
// id of the first. It is not the first, and must not be answered with 201 for it.
func TestFreshIDOfTheBuyersOwnOrder(t *testing.T) {
	p := placer{ids: &ids{next: storedBefore - 1}, orders: &store{place: func(_ context.Context, o Order) (Order, error) {
		if o.ID == storedBefore {
			return o, nil
		}
		return Order{}, &DuplicateOrderError{OrderID: storedBefore}
	}}}
	var dup *DuplicateOrderError
	require.ErrorAs(t, p.place(t.Context(), []Purchase{{UserID: 7}})[0].Err, &dup)
}

// TestBatchLaneTellsWhatBecameOfIt: the observer hears of the orders and of the refusals.
func TestBatchLaneTellsWhatBecameOfIt(t *testing.T) {
	var heard []error
	lane := NewBatchLane(&ids{}, &store{place: func(_ context.Context, o Order) (Order, error) {
		if o.UserID == 2 {
			return Order{}, ErrSoldOut
		}
		return o, nil
	}}, func(batch []Purchase, placed []Placed) {
		for i := range batch {
			heard = append(heard, placed[i].Err)
		}
	})
	for user := range int64(3) {
		_, _, _ = lane.Place(t.Context(), Purchase{UserID: user, VoucherID: 7, Deadline: time.Now().Add(time.Minute)})
	}
	require.Equal(t, []error{nil, nil, ErrSoldOut}, heard)
}

// TestPurchaseHasAnAnswerByItsDeadline: even if the transaction of its batch hangs, or that of the batch before it.
func TestPurchaseHasAnAnswerByItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		lane := NewBatchLane(&ids{}, &store{place: func(_ context.Context, o Order) (Order, error) { <-hang; return o, nil }}, nil)
		start := time.Now()
		var wg sync.WaitGroup
		for user := range int64(2) {
			wg.Go(func() {
				_, _, err := lane.Place(t.Context(), Purchase{UserID: user, VoucherID: 1, Deadline: start.Add(3 * time.Second)})
				require.ErrorIs(t, err, ErrUnavailable)
				require.Equal(t, 3*time.Second, time.Since(start))
			})
		}
		wg.Wait()
		close(hang)
		o, _, err := lane.Place(t.Context(), Purchase{UserID: 3, VoucherID: 1, Deadline: time.Now().Add(3 * time.Second)})
		require.NoError(t, err)
		require.Equal(t, int64(3), o.UserID)
	})
}

// TestCollectorGathersACrowd: after a batch of many the next one waits for as many, who come in the next moment, but not
// for ever, and a lone caller waits for nothing.
func TestCollectorGathersACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCollector(1, func([]int) { time.Sleep(time.Millisecond) })
		size := func(answers <-chan answer) int { return (<-answers).size }
		const many = 20
		start := time.Now()
		require.Equal(t, 1, size(ask(c, 1, 0)))
		require.Equal(t, time.Millisecond, time.Since(start))

		first, crowd := ask(c, 1, 0), ask(c, 1, make([]int, many)...)
		require.Equal(t, 1, size(first))
		require.Equal(t, many, size(crowd))
		synctest.Wait() // until the collector gathers; a caller it finds waiting is not one of those it waits for
		early := ask(c, 1, 0)
		time.Sleep(gatherFor / 2)
		later := ask(c, 1, make([]int, many)...)
		require.Equal(t, many*9/10, size(early), "it begins as soon as there are enough")
		require.Equal(t, many*9/10, size(later))

		time.Sleep(time.Second)
		first, crowd = ask(c, 1, 0), ask(c, 1, make([]int, many)...)
		<-first
		<-crowd
		start = time.Now()
		require.Equal(t, 1, size(ask(c, 1, 0)))
		require.Equal(t, gatherFor+time.Millisecond, time.Since(start), "the others did not come")
		time.Sleep(time.Second)
		start = time.Now()
		require.Equal(t, 1, size(ask(c, 1, 0)))
		require.Equal(t, time.Millisecond, time.Since(start))
	})
}

// TestCollectorGathersTwice: more callers come after there were enough, and before the batch is taken.
func TestCollectorGathersTwice(t *testing.T) {
	c := newTestCollector(1, func([]int) {})
	q := &queue[int, answer]{serving: 2, full: make(chan struct{}), want: 2}
	c.queues[1] = q
	full := q.full
	for range 2 {
		require.NotNil(t, c.join(1, 0))
	}
	<-full
	q.waiting = q.waiting[:0] // another batch has taken them
	for range 4 {
		require.NotNil(t, c.join(1, 0))
	}
	require.Len(t, q.waiting, 4)
}
