package salestats

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

func TestHistory(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *redis.Client){
		"seconds and processes add up": secondsAddUp, "each second once": eachSecondOnce, "the last hour": lastHour, "instances": instances,
	} {
		t.Run(name, func(t *testing.T) { env.EachRedis(t, test) })
	}
}

// secondsAddUp counts on two processes, which report meanwhile. The totals contain all counts, and so do the seconds.
func secondsAddUp(t *testing.T, rdb *redis.Client) {
	const workers, each = 8, 2000
	processes := [2]*RedisHistory{{Redis: rdb, Instance: "a"}, {Redis: rdb, Instance: "b"}}
	counters := [2]*Counters{NewCounters(true), NewCounters(true)}
	reportAll := func() {
		for i, h := range processes {
			reports := map[int64]*report{}
			for id, c := range counters[i].take(time.Now()) {
				reports[id] = &report{counts: c}
			}
			require.NoError(t, h.add(t.Context(), reports, time.Now()))
		}
	}

	var counting sync.WaitGroup
	for w := range workers {
		counting.Go(func() {
			for i := range each {
				counters[w%2].CountAnswer(7, []string{"ok", "sold_out"}[i%2], time.Millisecond)
				counters[w%2].CountSettled(7, domain.ReasonDuplicate)
				counters[w%2].CountBatch(7, 3)
			}
		})
	}
	for range 10 {
		reportAll()
	}
	counting.Wait()
	reportAll()

	want := map[string]int64{"ok": workers * each / 2, "sold_out": workers * each / 2}
	var r reading
	require.Eventually(t, func() bool { // the last second is not over yet
		var err error
		r, err = processes[0].read(t.Context(), 7, time.Time{}, time.Now())
		require.NoError(t, err)
		sum := map[string]int64{}
		for _, s := range r.seconds {
			for name, n := range s.Answers {
				sum[name] += n
			}
		}
		return fmt.Sprint(sum) == fmt.Sprint(want)
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, want, r.total.Answers)
	require.Equal(t, map[string]int64{"ok": workers * each / 2, "duplicate_order": workers * each}, r.total.Settled)
	require.EqualValues(t, workers*each, r.total.Batches)
	require.EqualValues(t, 3*workers*each, r.total.Rows)
	require.InEpsilon(t, time.Millisecond, time.Duration(r.total.P99), 0.1)
	require.Equal(t, 2, r.instances)
}

// eachSecondOnce: even seconds without reports, and the last two minutes only.
func eachSecondOnce(t *testing.T, rdb *redis.Client) {
	h := &RedisHistory{Redis: rdb, Instance: "a"}
	ctx := t.Context()
	now := time.Now()
	left := int64(5)
	one := &report{counts: newCounts(), level: Level{Stock: &left}}
	one.counts.Answers["ok"] = 1

	r, err := h.read(ctx, 7, time.Time{}, now)
	require.NoError(t, err)
	require.Empty(t, r.seconds)
	require.Equal(t, domain.Moment(now).UTC(), r.total.Since)

	require.NoError(t, h.add(ctx, map[int64]*report{7: one}, now.Add(-time.Hour)))
	at := now.Add(-10 * time.Second)
	require.NoError(t, h.add(ctx, map[int64]*report{7: one}, at))
	for _, key := range []string{totalsKey(7), secondKey(7, at.Unix()), periodKey(7, at)} {
		require.Positive(t, rdb.PTTL(ctx, key).Val())
	}
	require.NoError(t, rdb.HSet(ctx, secondKey(7, at.Unix()), "of another version", 1, "latency:100000", 1, "batches", "x").Err())

	r, err = h.read(ctx, 7, time.Time{}, now)
	require.NoError(t, err)
	require.Len(t, r.seconds, historySeconds-1)
	for i, s := range r.seconds[1:] {
		require.Equal(t, r.seconds[i].At.Add(time.Second), s.At)
		if s.At.Unix() != at.Unix() {
			require.Empty(t, s.Answers)
			continue
		}
		require.Equal(t, map[string]int64{"ok": 1}, s.Answers)
		require.Empty(t, s.Settled, "an admission is not a stored order")
		require.Equal(t, &left, s.Stock)
	}

	some := env.Must(h.read(ctx, 7, r.seconds[100].At, now))(t)
	require.Equal(t, r.seconds[101:], some.seconds)
	some = env.Must(h.read(ctx, 7, now.Add(time.Hour), now))(t)
	require.Empty(t, some.seconds)
}

// lastHour: what all processes reported in the last hour is returned by the first read, and older periods are not.
func lastHour(t *testing.T, rdb *redis.Client) {
	now := time.Now().Truncate(period).Add(period / 2)
	processes := [2]*RedisHistory{{Redis: rdb, Instance: "a"}, {Redis: rdb, Instance: "b"}}
	at := func(ago time.Duration, stock int64) {
		for i, h := range processes {
			r := &report{counts: newCounts()}
			r.counts.Answers = map[string]int64{"ok": 3, "sold_out": 2, "replayed": 7}
			r.counts.Settled["ok"] = 3
			if i == 1 {
				r.level.Stock = &stock
			}
			require.NoError(t, h.add(t.Context(), map[int64]*report{9: r}, now.Add(-ago)))
		}
	}
	at(2*time.Hour, 9)
	at(time.Hour, 8)
	at(time.Hour-period, 7)
	at(time.Minute, 6)
	at(time.Minute+time.Second, 5)
	at(0, 4)

	hour := env.Must(processes[0].hour(t.Context(), 9, now))(t)
	period := func(ago time.Duration, times, stock int64) Period {
		return Period{At: now.Add(-ago).Truncate(period).UTC(), Orders: 6 * times, Refused: 4 * times, Stock: &stock}
	}
	require.Equal(t, []Period{period(time.Hour-10*time.Second, 1, 7), period(time.Minute, 2, 5), period(0, 1, 4)}, hour)
	require.Positive(t, rdb.PTTL(t.Context(), periodKey(9, now)).Val())
}

// instances: a process without counts reports as well, and one without reports is not counted.
func instances(t *testing.T, rdb *redis.Client) {
	a, b := &RedisHistory{Redis: rdb, Instance: "a"}, &RedisHistory{Redis: rdb, Instance: "b"}
	now := time.Now()
	count := func(now time.Time) int {
		r, err := a.read(t.Context(), 8, time.Time{}, now)
		require.NoError(t, err)
		return r.instances
	}
	require.NoError(t, a.add(t.Context(), nil, now))
	require.NoError(t, b.add(t.Context(), nil, now.Add(5*time.Second)))
	require.Equal(t, 2, count(now.Add(5*time.Second)))
	require.NoError(t, b.add(t.Context(), nil, now.Add(instanceTimeout+time.Second)))
	require.Equal(t, 1, count(now.Add(instanceTimeout+time.Second)))
}
