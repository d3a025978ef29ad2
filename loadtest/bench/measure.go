package main

import (
	"bufio"
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

	before := s.usage(servers)
	counters := countersOf(ctx, servers)
	results, err := runLoads(ctx, loads...)
	if err != nil {
		return nil, err
	}

	cpu := s.usage(servers).minus(before)
	counted := countersOf(ctx, servers).minus(counters)
	var total int64
	for _, r := range results {
		total += r.total()
	}

	samples := make([]*sample, len(loads))
	for i, l := range loads {
		samples[i] = &sample{
			subject: l.subject,
			result:  results[i],
			counts:  results[i].total(),
			cpu:     cpu,
			allocs:  counted.mallocs / float64(total),
			batched: counted.batched / counted.batches,
		}

		if len(loads) > 1 {
			samples[i].shared = total
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

func (s *stack) usage(servers []*process) usage {
	u := usage{
		database: cpuTime(s.mariadb.PID()),
		redis:    cpuTime(s.redis.PID()),
		client:   cpuTime(os.Getpid()),
	}
	for _, p := range servers {
		u.server += cpuTime(p.PID())
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

// Statuses of successful orders, as keys of result.answers.
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

		// Keys are per user.
		key := ""
		if keyed {
			key = fmt.Sprintf("8e03978e-40d5-43e8-bc93-%012s", id)
		}

		requests[i] = orderRequest(id, token, key)
	}

	return requests
}

func orderRequest(sale, token, key string) []byte {
	return httpRequest(http.MethodPost, strings.Replace(orderRoute, ":id", sale, 1), token, key)
}

// counters are totals that the servers publish as metrics.
type counters struct {
	// Heap allocations.
	mallocs float64
	// Number of group commits.
	batches float64
	// Number of the orders in them.
	batched float64
}

func (c counters) minus(d counters) counters {
	return counters{
		mallocs: c.mallocs - d.mallocs,
		batches: c.batches - d.batches,
		batched: c.batched - d.batched,
	}
}

func countersOf(ctx context.Context, servers []*process) counters {
	var sum counters
	for _, p := range servers {
		values := metrics(ctx, p.ops, "go_memstats_mallocs_total", "seckill_batch_size_count", "seckill_batch_size_sum")
		sum.mallocs += values[0]
		sum.batches += values[1]
		sum.batched += values[2]
	}
	return sum
}

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
