package salestats

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

const (
	// historySeconds is the number of seconds that are kept per voucher.
	historySeconds = 120
	// completeAfter is how long after its beginning a second is read: the processes have reported it, although their clocks
	// differ a little. A later report is missing in the streams that have read the second.
	completeAfter = 2 * time.Second
	// period is the time of one Period, and periods their number: those of an hour are kept.
	period  = 10 * time.Second
	periods = int(time.Hour / period)
	// keptFor is how long the totals of a voucher are kept after its last use.
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

// sinceName is the field of the totals with the time in ms at which they began.
const sinceName = "since"

// RedisHistory keeps in Redis what the processes report about the sales each second. It is safe for concurrent use. Its
// errors are those of Redis.
type RedisHistory struct {
	Redis redis.Cmdable
	// The unique name of this process.
	Instance string
}

// report is what a process reports about a voucher for a second.
type report struct {
	counts counts
	level  Level
}

// The keys of a voucher are hashes: the sums of what the processes have reported, in all, in a second and in a period.
func keyOf(voucherID int64, of string) string {
	return fmt.Sprintf("seckill:stats:{%d}:%s", voucherID, of)
}

func totalsKey(voucherID int64) string { return keyOf(voucherID, "totals") }

func secondKey(voucherID, second int64) string {
	return keyOf(voucherID, "second:"+strconv.FormatInt(second, 10))
}

func periodKey(voucherID int64, at time.Time) string {
	return keyOf(voucherID, "period:"+strconv.FormatInt(at.Truncate(period).Unix(), 10))
}

// add stores the reports of this process for the second of now. Without reports it stores that the process runs.
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

func oldestInstance(now time.Time) string {
	return strconv.FormatInt(now.Add(-instanceTimeout).UnixMilli(), 10)
}

func (r *report) add(ctx context.Context, p redis.Pipeliner, voucherID int64, now time.Time) {
	totals := totalsKey(voucherID)
	p.HSetNX(ctx, totals, sinceName, now.UnixMilli())

	for key, life := range map[string]time.Duration{
		totals:                           keptFor,
		secondKey(voucherID, now.Unix()): (historySeconds + 10) * time.Second,
		periodKey(voucherID, now):        time.Hour + time.Minute,
	} {
		for name, n := range r.counts {
			p.HIncrBy(ctx, key, name.String(), n)
		}

		for name, level := range map[string]*int64{
			stockName: r.level.Stock,
			gateName:  r.level.Gate,
			lagName:   r.level.Lag,
		} {
			if level != nil {
				p.HSet(ctx, key, name, *level)
			}
		}

		p.PExpire(ctx, key, life)
	}
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
	first := max(after.Unix()+1, now.Unix()-historySeconds)
	end := now.Add(time.Second - completeAfter).Unix()

	var instances *redis.IntCmd
	var totals *redis.MapStringStringCmd
	var seconds []*redis.MapStringStringCmd
	_, err := h.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		instances = p.ZCount(ctx, instancesKey, oldestInstance(now), "+inf")
		totals = p.HGetAll(ctx, totalsKey(voucherID))
		for second := first; second < end; second++ {
			seconds = append(seconds, p.HGetAll(ctx, secondKey(voucherID, second)))
		}
		return nil
	})
	if err != nil {
		return reading{}, err
	}

	since := now
	if ms := number(totals.Val(), sinceName); ms != nil {
		since = time.UnixMilli(*ms)
	}

	r := reading{
		instances: int(instances.Val()),
		total:     Totals{domain.Moment(since).UTC(), parseCounts(totals.Val())},
	}

	for i, hash := range seconds {
		second := first + int64(i)
		if second < since.Unix() {
			continue
		}

		r.seconds = append(r.seconds, Second{
			At:     time.Unix(second, 0).UTC(),
			Counts: parseCounts(hash.Val()),
			Level: Level{
				Stock: number(hash.Val(), stockName),
				Gate:  number(hash.Val(), gateName),
				Lag:   number(hash.Val(), lagName),
			},
		})
	}

	return r, nil
}

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
		hash := reply.(*redis.MapStringStringCmd).Val()
		if len(hash) == 0 {
			continue
		}

		counts := parseCounts(hash)
		all = append(all, Period{
			At:      first.Add(time.Duration(i) * period).UTC(),
			Orders:  counts.Settled[OutcomeOK],
			Refused: counts.refused(),
			Stock:   number(hash, stockName),
		})
	}

	return all, nil
}

func number(hash map[string]string, name string) *int64 {
	n, err := strconv.ParseInt(hash[name], 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
