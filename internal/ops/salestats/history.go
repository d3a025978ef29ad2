package salestats

import (
	"context"
	_ "embed" // the script
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

const (
	// historySeconds is the number of seconds that are kept per voucher.
	historySeconds = 120
	// period is the time of one Period, and periods their number: those of an hour are kept.
	period  = 10 * time.Second
	periods = int(time.Hour / period)
	// keptFor is how long the statistics of a voucher are kept after its last use.
	keptFor = 30 * time.Minute
	// A process that has not reported for instanceTimeout counts as stopped.
	instanceTimeout = 10 * time.Second
	// instancesKey is a sorted set: the processes, with the Unix time of their last report in ms.
	instancesKey = "seckill:stats:instances"
)

// The names of levels in Redis.
const (
	stockName = "stock"
	gateName  = "gate"
	lagName   = "lag"
)

// The names of the values of a period in Redis, besides stockName.
const (
	ordersName  = "orders"
	refusedName = "refused"
)

//go:embed history.lua
var historySource string

var historyScript = redis.NewScript(historySource)

// RedisHistory keeps in Redis what the processes report about the sales each second. It is safe for concurrent use. Its
// errors are those of Redis.
type RedisHistory struct {
	Redis redis.UniversalClient
	// The unique name of this process.
	Instance string
}

// report is what a process reports about a voucher for a second.
type report struct {
	counts counts
	level  Level
}

func historyKeys(voucherID int64) (reports, totals string) {
	prefix := fmt.Sprintf("seckill:stats:{%d}:", voucherID)
	return prefix + "reports", prefix + "totals"
}

// periodKey is a hash: the sums of the reports of a period.
func periodKey(voucherID int64, at time.Time) string {
	return fmt.Sprintf("seckill:stats:{%d}:period:%d", voucherID, at.Truncate(period).Unix())
}

// add stores the reports of this process. They belong to the second of Redis in which they arrive. Without reports it
// stores that the process runs.
func (h *RedisHistory) add(ctx context.Context, reports map[int64]*report, now time.Time) error {
	_, err := h.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, instancesKey, redis.Z{Score: float64(now.UnixMilli()), Member: h.Instance})
		p.ZRemRangeByScore(ctx, instancesKey, "-inf", "("+oldestInstance(now))
		p.PExpire(ctx, instancesKey, instanceTimeout)

		for voucherID, r := range reports {
			r.add(ctx, p, voucherID, now)
		}

		return nil
	})
	return err
}

// oldestInstance returns the time of the last report of a process that still counts as running.
func oldestInstance(now time.Time) string {
	return strconv.FormatInt(now.Add(-instanceTimeout).UnixMilli(), 10)
}

func (r *report) add(ctx context.Context, p redis.Pipeliner, voucherID int64, now time.Time) {
	reports, totals := historyKeys(voucherID)
	var values []any
	r.counts.each(func(name string, n uint64) {
		values = append(values, name, n)
		p.HIncrBy(ctx, totals, name, int64(n)) //nolint:gosec // a second's
	})

	for name, level := range map[string]*int64{
		stockName: r.level.Stock,
		gateName:  r.level.Gate,
		lagName:   r.level.Lag,
	} {
		if level != nil {
			values = append(values, name, *level)
		}
	}

	// The last report of a sale may have nothing new, and Redis refuses an entry without fields.
	if len(values) > 0 {
		oldest := strconv.FormatInt(now.Add(-(historySeconds+10)*time.Second).UnixMilli(), 10)
		p.XAdd(ctx, &redis.XAddArgs{
			Stream: reports,
			MinID:  oldest,
			Approx: true,
			Values: values,
		})
	}

	p.HSetNX(ctx, totals, "since", now.UnixMilli())
	p.PExpire(ctx, reports, keptFor)
	p.PExpire(ctx, totals, keptFor)

	key := periodKey(voucherID, now)
	p.HIncrBy(ctx, key, ordersName, int64(r.counts.settled[0])) //nolint:gosec // a second's
	p.HIncrBy(ctx, key, refusedName, int64(r.counts.refused())) //nolint:gosec // a second's
	if r.level.Stock != nil {
		p.HSet(ctx, key, stockName, *r.level.Stock)
	}
	p.PExpire(ctx, key, time.Hour+time.Minute)
}

// reading is what all processes have reported about a voucher.
type reading struct {
	instances int
	total     Totals
	seconds   []Second
}

// read returns the reports about a voucher, with the complete seconds later than after. Seconds without reports have
// neither counts nor levels.
func (h *RedisHistory) read(ctx context.Context, voucherID int64, after, now time.Time) (reading, error) {
	reports, totals := historyKeys(voucherID)
	oldest := now.Add(-historySeconds * time.Second)
	if after.After(oldest) {
		oldest = after.Add(time.Second)
	}

	keys := []string{reports, totals}
	reply, err := historyScript.Run(ctx, h.Redis, keys, oldest.UnixMilli()).Slice()
	if err != nil {
		return reading{}, err
	}

	instances, err := h.Redis.ZCount(ctx, instancesKey, oldestInstance(now), "+inf").Result()
	if err != nil {
		return reading{}, err
	}

	r := reading{instances: int(instances)}
	since := r.readTotals(reply[2], now)
	text, _ := reply[0].(string)
	second, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return reading{}, fmt.Errorf("history.lua returned %v", reply[0])
	}

	first := max(since.Unix(), after.Unix()+1, second-historySeconds)
	r.readSeconds(reply[1], first, second)
	return r, nil
}

// hour returns the periods of the last hour in which something was reported.
func (h *RedisHistory) hour(ctx context.Context, voucherID int64, now time.Time) ([]Period, error) {
	first := now.Truncate(period).Add(-time.Duration(periods-1) * period)
	replies, err := h.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range periods {
			p.HGetAll(ctx, periodKey(voucherID, first.Add(time.Duration(i)*period)))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	var all []Period
	for i, reply := range replies {
		values := reply.(*redis.MapStringStringCmd).Val()
		if len(values) == 0 {
			continue
		}

		p := Period{At: first.Add(time.Duration(i) * period).UTC()}
		p.Orders, _ = strconv.ParseInt(values[ordersName], 10, 64)
		p.Refused, _ = strconv.ParseInt(values[refusedName], 10, 64)
		if n, err := strconv.ParseInt(values[stockName], 10, 64); err == nil {
			p.Stock = &n
		}

		all = append(all, p)
	}

	return all, nil
}

// readTotals reads the sums of a voucher, and returns when they began.
func (r *reading) readTotals(reply any, now time.Time) time.Time {
	since := now
	var sum counts
	eachPair(reply, func(name, value string) {
		if name != "since" {
			sum.add(name, value)
			return
		}

		if ms, err := strconv.ParseInt(value, 10, 64); err == nil {
			since = time.UnixMilli(ms)
		}
	})

	r.total = Totals{domain.Moment(since).UTC(), sum.named()}
	return since
}

// readSeconds reads the reports of the seconds from first until before end.
func (r *reading) readSeconds(reply any, first, end int64) {
	if first >= end {
		return
	}

	sums := make([]counts, end-first)
	levels := make([]Level, end-first)
	entries, _ := reply.([]any)
	for _, e := range entries {
		entry, ok := e.([]any)
		if !ok || len(entry) != 2 {
			continue
		}

		id, _ := entry[0].(string)
		ms, _ := strconv.ParseInt(strings.SplitN(id, "-", 2)[0], 10, 64)
		i := ms/1000 - first
		if i < 0 || i >= end-first {
			continue
		}

		eachPair(entry[1], func(name, value string) {
			sums[i].add(name, value)
			levels[i].add(name, value)
		})
	}

	for i := range sums {
		r.seconds = append(r.seconds, Second{
			At:     time.Unix(first+int64(i), 0).UTC(),
			Counts: sums[i].named(),
			Level:  levels[i],
		})
	}
}

// add sets a level with a name in Redis. It ignores other names.
func (l *Level) add(name, value string) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return
	}

	switch name {
	case stockName:
		l.Stock = &n
	case gateName:
		l.Gate = &n
	case lagName:
		l.Lag = &n
	}
}

// eachPair calls f for the alternating names and values in a reply of Redis.
func eachPair(reply any, f func(name, value string)) {
	values, _ := reply.([]any)
	for i := 0; i+1 < len(values); i += 2 {
		name, _ := values[i].(string)
		value, _ := values[i+1].(string)
		f(name, value)
	}
}
