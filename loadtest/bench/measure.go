package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measure runs loads concurrently and returns one sample for each. The end of the first load ends the others. CPU time
// cannot be attributed to a load, so each sample has all of it, to be divided by the answers of all loads.
func (s *stack) measure(ctx context.Context, loads ...load) ([]*sample, error) {
	var servers []*process
	for _, l := range loads {
		for _, server := range l.servers {
			if !slices.Contains(servers, server) {
				servers = append(servers, server)
			}
		}
	}

	before := s.usage(ctx, servers)
	samples, err := runLoads(ctx, loads...)
	if err != nil {
		return nil, err
	}

	used := s.usage(ctx, servers).minus(before)
	var total int64
	for _, m := range samples {
		total += m.total()
	}

	for _, m := range samples {
		m.used = used
		if len(loads) > 1 {
			m.shared = total
		}
	}

	return samples, nil
}

func (s *stack) flood(ctx context.Context, l load, want ...string) ([]*sample, error) {
	l.endless = true
	samples, err := s.measure(ctx, l)
	if err != nil {
		return nil, err
	}

	return samples, samples[0].only(want...)
}

func (s *stack) usage(ctx context.Context, servers []*process) usage {
	u := usageOf(ctx, servers)
	u.database = cpuTime(s.mariadb.PID())
	u.redis = cpuTime(s.redis.PID())
	u.client = cpuTime(os.Getpid())
	return u
}

func usageOf(ctx context.Context, servers []*process) usage {
	var u usage
	for _, p := range servers {
		u.server += cpuTime(p.PID())
		values := metrics(ctx, p.ops, "go_memstats_mallocs_total", "seckill_batch_size_count", "seckill_batch_size_sum")
		u.mallocs += values[0]
		u.batches += values[1]
		u.batched += values[2]
	}

	return u
}

// sale is one run in which all buyers order from new sales.
type sale struct {
	// Without requests.
	load

	// Number of sales, over which the buyers are spread; 0 means 1.
	vouchers int
	// Every order has an Idempotency-Key.
	keyed bool
}

// sell publishes sales and sends one order per user, spread over the sales. beside, if not nil, returns a load that runs
// at the same time. It returns an error unless all answers are as expected and there is one row per answered order. In
// a lane that answers before the commit, it also measures how long the workers need to commit the rest.
func (s *stack) sell(ctx context.Context, o sale, beside func(sale string) load) ([]*sample, error) {
	sales, err := s.sales(ctx, o.servers[0], max(o.vouchers, 1), int64(len(s.tokens)))
	if err != nil {
		return nil, err
	}

	o.requests = s.requests(sales, o.keyed)
	loads := []load{o.load}
	if beside != nil {
		loads = append(loads, beside(sales[0]))
	}

	samples, err := s.measure(ctx, loads...)
	if err != nil {
		return nil, err
	}

	m := samples[0]
	queued := m.answers[accepted] > 0
	success := created
	if queued {
		success = accepted
	}

	if err := m.only(success); err != nil {
		return nil, fmt.Errorf("%s: %w", o.subject, err)
	}

	if queued {
		if err := s.watchWorkers(ctx, m, sales); err != nil {
			return nil, fmt.Errorf("%s: %w", o.subject, err)
		}
	}

	return samples, s.committed(ctx, sales, m.counts)
}

// Statuses of successful orders, as keys of sample.answers.
const (
	created  = "201"
	accepted = "202"
)

func (s *stack) watchWorkers(ctx context.Context, m *sample, sales []string) error {
	start := time.Now()
	sold, err := s.sold(ctx, sales)
	if err != nil {
		return err
	}

	m.backlog = m.counts - sold
	err = s.drain(ctx, sales, m.counts)
	m.drained = time.Since(start)

	return err
}

func (s *stack) requests(sales []string, keyed bool) [][]byte {
	requests := make([][]byte, len(s.tokens))
	for i, token := range s.tokens {
		id := sales[i%len(sales)]

		var key []string
		if keyed {
			// Keys are per user.
			key = []string{fmt.Sprintf("Idempotency-Key: 8e03978e-40d5-43e8-bc93-%012s", id)}
		}

		requests[i] = httpRequest(http.MethodPost, strings.Replace(orderRoute, ":id", id, 1), token, key...)
	}

	return requests
}

// metrics returns the values that a server publishes under these names; those that it does not are NaN.
func metrics(ctx context.Context, ops string, names ...string) []float64 {
	values := slices.Repeat([]float64{math.NaN()}, len(names))

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/metrics", http.NoBody) //nolint:gosec // a server that this program started
	if err != nil {
		return values
	}

	res, err := http.DefaultClient.Do(req) //nolint:gosec // a server that this program started
	if err != nil {
		return values
	}
	defer res.Body.Close() //nolint:errcheck // the body was read, or the values stay NaN

	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		v, err := strconv.ParseFloat(text, 64)
		if i := slices.Index(names, name); i >= 0 && err == nil {
			values[i] = v
		}
	}

	return values
}

// sample is one measured run of a subject.
type sample struct {
	subject string
	// Count by status, or by code for problem documents.
	answers map[string]int64
	// Sorted.
	latencies []time.Duration
	// Time until the last answer.
	elapsed time.Duration
	// Answers that the rate counts: all, or only the stored orders.
	counts int64
	// Answers of all loads, if others ran at the same time; else 0.
	shared int64
	used   usage

	// Accepted orders that were not committed at the last answer.
	backlog int64
	// Time from the last answer until all were committed; 0 if the answers came after the commits.
	drained time.Duration
}

// usage is what processes have used since they started.
type usage struct {
	// User and system CPU time.
	server   time.Duration
	database time.Duration
	redis    time.Duration
	client   time.Duration

	// What the servers publish, or NaN: heap allocations, group commits and the orders in them.
	mallocs float64
	batches float64
	batched float64
}

func (u usage) minus(v usage) usage {
	return usage{
		server:   u.server - v.server,
		database: u.database - v.database,
		redis:    u.redis - v.redis,
		client:   u.client - v.client,
		mallocs:  u.mallocs - v.mallocs,
		batches:  u.batches - v.batches,
		batched:  u.batched - v.batched,
	}
}

func (u usage) system() time.Duration { return u.server + u.database + u.redis }

func (m *sample) total() int64 { return int64(len(m.latencies)) }

func (m *sample) rate() float64 { return float64(m.counts) / m.elapsed.Seconds() }

// allCPU returns the CPU time of all processes per answer in microseconds.
func (m *sample) allCPU() float64 { return m.perAnswer(m.used.system() + m.used.client) }

func (m *sample) systemCPU() float64 { return m.perAnswer(m.used.system()) }

func (m *sample) perAnswer(d time.Duration) float64 {
	return float64(d.Microseconds()) / float64(cmp.Or(m.shared, m.counts))
}

func (m *sample) allocs() float64 { return m.used.mallocs / float64(cmp.Or(m.shared, m.counts)) }

// millis returns a percentile of the latency in milliseconds, by the nearest rank, or NaN if it was not measured.
func (m *sample) millis(p float64) float64 {
	if m.total() == 0 {
		return math.NaN()
	}

	rank := int(math.Ceil(float64(m.total()) * p / 100))
	return float64(m.latencies[rank-1].Microseconds()) / 1000
}

func (m *sample) p99() float64 { return m.millis(99) }

// String returns the sample as a line of progress output.
func (m *sample) String() string {
	text := fmt.Sprintf("%9s/s  CPU %5s µs", short(m.rate()), short(m.allCPU()))
	if m.total() > 0 {
		text += fmt.Sprintf("  p50 %s ms  p99 %s ms  max %s ms", short(m.millis(50)), short(m.millis(99)), short(m.millis(100)))
	}
	if m.drained > 0 {
		text += fmt.Sprintf("  backlog %s, drained after %s s", thousands(m.backlog), short(m.drained.Seconds()))
	}

	return text
}

// median returns the median, which is the mean of the two middle values if their number is even, or NaN without values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}

	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func spread(values []float64) string {
	middle := short(median(values))
	if len(values) < 2 {
		return middle
	}

	return fmt.Sprintf("%s (%s – %s)", middle, short(slices.Min(values)), short(slices.Max(values)))
}

// short formats a number with about three digits, and whole or large numbers in full with thousands separators.
func short(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 1000 || v == math.Trunc(v):
		return thousands(int64(math.Round(v)))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}

	return fmt.Sprintf("%.2f", v)
}

func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

func quotients(a, b []float64) []float64 {
	q := make([]float64, min(len(a), len(b)))
	for i := range q {
		q[i] = a[i] / b[i]
	}

	return q
}
