package main

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// sample is one measured run.
type sample struct {
	subject string
	conns   int
	*result
	counts  int64 // answers that the rate counts: all, or only the orders stored
	cpu     usage
	shared  int64   // answers that the CPU time was spent on, if other loads ran beside this one; else 0
	allocs  float64 // Go allocations of the servers per answer; NaN if unknown
	batched float64 // orders in a batch of the group commit, on average; NaN if unknown

	queued  bool
	backlog int64         // orders accepted and not committed at the last answer
	drained time.Duration // from the last answer until all were committed
}

// rate returns counted answers per second.
func (m *sample) rate() float64 { return float64(m.counts) / m.elapsed.Seconds() }

// usage is CPU time, user and system.
type usage struct {
	server, database, redis, client time.Duration
}

func (u usage) minus(v usage) usage {
	return usage{u.server - v.server, u.database - v.database, u.redis - v.redis, u.client - v.client}
}

// system returns the CPU time of everything but the client.
func (u usage) system() time.Duration { return u.server + u.database + u.redis }

// all returns the CPU time of all processes.
func (u usage) all() time.Duration { return u.system() + u.client }

// part is one of the loads of a run.
type part struct {
	subject string
	servers []*process
	load    load
}

// measure runs loads at the same time and returns one sample for each. The first load ends the others. CPU time cannot
// be divided between loads, so each sample has the whole of it, per answer of any load.
func (s *stack) measure(ctx context.Context, parts ...part) ([]*sample, error) {
	var servers []*process
	for _, p := range parts {
		for _, server := range p.servers {
			if !slices.Contains(servers, server) {
				servers = append(servers, server)
			}
		}
	}
	before, counters := s.usage(servers), countersOf(ctx, servers)
	results, err := runParts(ctx, parts)
	if err != nil {
		return nil, err
	}
	cpu, counted := s.usage(servers).minus(before), countersOf(ctx, servers).minus(counters)
	var total int64
	for _, r := range results {
		total += r.total()
	}
	samples := make([]*sample, len(parts))
	for i, p := range parts {
		m := &sample{subject: p.subject, conns: p.load.conns, result: results[i], counts: results[i].total(), cpu: cpu}
		m.allocs, m.batched = counted.mallocs/float64(total), counted.batched/counted.batches
		if len(parts) > 1 {
			m.shared = total
		}
		samples[i] = m
	}
	return samples, nil
}

// runParts runs loads at the same time until the first of them ends, or one fails.
func runParts(ctx context.Context, parts []part) ([]*result, error) {
	var (
		wg      sync.WaitGroup
		results = make([]*result, len(parts))
		errs    = make([]error, len(parts))
		stop    atomic.Bool
	)
	for i, p := range parts {
		l := p.load
		for _, server := range p.servers {
			l.addrs = append(l.addrs, server.addr)
		}
		l.stop = &stop
		wg.Go(func() {
			if results[i], errs[i] = l.run(ctx); errs[i] != nil {
				errs[i] = fmt.Errorf("%s, %d connections: %w", p.subject, l.conns, errs[i])
			}
			if i == 0 || errs[i] != nil {
				stop.Store(true)
			}
		})
	}
	wg.Wait()
	return results, firstOf(errs)
}

func (s *stack) usage(servers []*process) usage {
	u := usage{database: cpuTime(s.dbPID), redis: cpuTime(s.rdbPID), client: cpuTime(os.Getpid())}
	for _, p := range servers {
		u.server += cpuTime(p.cmd.Process.Pid)
	}
	return u
}

// sale is a rush of the crowd in new sales.
type sale struct {
	subject  string
	servers  []*process
	vouchers int // sales, to which the buyers go in turn; 0 means 1
	clicks   clicks
	load     load // without requests
}

// clicks is how the buyers press.
type clicks struct {
	keyed    bool // with an Idempotency-Key for each order
	repeated bool // one request in ten repeats an earlier one
}

// sell publishes sales and sends the crowd, each user once and to one of them. beside, if it is not nil, returns loads
// that run at the same time. All answers must be as expected, and there must be one row for each order answered. In a
// lane that answers before the commit, sell measures how long the workers still need.
func (s *stack) sell(ctx context.Context, o sale, beside func(sale string) []part) ([]*sample, error) {
	sales, err := s.sales(ctx, o.servers[0], max(o.vouchers, 1), int64(len(s.crowd)))
	if err != nil {
		return nil, err
	}
	o.load.requests = s.requests(sales, o.clicks, o.load.conns)
	parts := []part{{o.subject, o.servers, o.load}}
	if beside != nil {
		parts = append(parts, beside(sales[0])...)
	}
	samples, err := s.measure(ctx, parts...)
	if err != nil {
		return nil, err
	}
	m := samples[0]
	allowed := []string{created}
	if m.answers[accepted] > 0 {
		allowed = []string{accepted}
	}
	m.counts = m.count(allowed...)
	if o.clicks.repeated {
		allowed = append(allowed, "duplicate_order", "order_in_progress")
	}
	if err := m.only(allowed...); err != nil {
		return nil, fmt.Errorf("%s: %w", o.subject, err)
	}
	if m.answers[accepted] > 0 {
		if err := s.watchWorkers(ctx, m, sales); err != nil {
			return nil, fmt.Errorf("%s: %w", o.subject, err)
		}
	}
	return samples, s.committed(ctx, sales, m.counts)
}

// The statuses that an order is answered with, as result.answers names them.
const (
	created  = "201"
	accepted = "202"
)

// watchWorkers waits until everything that was accepted is committed.
func (s *stack) watchWorkers(ctx context.Context, m *sample, sales []string) error {
	start := time.Now()
	sold, err := s.sold(ctx, sales)
	if err != nil {
		return err
	}
	m.queued, m.backlog = true, m.counts-sold
	err = s.drain(ctx, sales, m.counts)
	m.drained = time.Since(start)
	return err
}

// requests returns the orders of the crowd, in turn for each of the sales.
func (s *stack) requests(sales []string, how clicks, conns int) [][]byte {
	requests := make([][]byte, len(s.crowd))
	for i, token := range s.crowd {
		id, key := sales[i%len(sales)], ""
		if how.keyed {
			key = fmt.Sprintf("8e03978e-40d5-43e8-bc93-%012s", id) // keys are per user
		}
		requests[i] = orderRequest(id, token, key)
	}
	if how.repeated {
		requests = withRepeats(requests, 4*conns)
	}
	return requests
}

func orderRequest(sale, token, key string) []byte {
	return request(http.MethodPost, strings.Replace(orderRoute, ":id", sale, 1), token, key)
}

// withRepeats adds a repetition after every nine requests: in turn of the last one, so that both are sent in the same
// moment, and of one that is the given number of requests back, which has been answered.
func withRepeats(requests [][]byte, back int) [][]byte {
	var all [][]byte
	for i, r := range requests {
		all = append(all, r)
		switch {
		case i%18 == 8:
			all = append(all, r)
		case i%18 == 17 && i >= back:
			all = append(all, requests[i-back])
		}
	}
	return all
}

// counters are what servers count.
type counters struct {
	mallocs          float64 // heap allocations
	batches, batched float64 // group commits, and the orders in them
}

func (c counters) minus(d counters) counters {
	return counters{c.mallocs - d.mallocs, c.batches - d.batches, c.batched - d.batched}
}

// countersOf sums the counters of the servers; one that a server does not have is NaN.
func countersOf(ctx context.Context, servers []*process) (sum counters) {
	for _, p := range servers {
		values := metrics(ctx, p.ops, "go_memstats_mallocs_total", "seckill_batch_size_count", "seckill_batch_size_sum")
		sum = counters{sum.mallocs + values[0], sum.batches + values[1], sum.batched + values[2]}
	}
	return sum
}

// metrics reads metrics without labels. One that the server does not have is NaN.
func metrics(ctx context.Context, ops string, names ...string) []float64 {
	values := slices.Repeat([]float64{math.NaN()}, len(names))
	if ops == "" {
		return values
	}
	res, err := get(ctx, "http://"+ops+"/metrics")
	if err != nil {
		return values
	}
	defer res.Body.Close() //nolint:errcheck // read, or not wanted
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if i := slices.Index(names, name); i >= 0 {
			if v, err := strconv.ParseFloat(text, 64); err == nil {
				values[i] = v
			}
		}
	}
	return values
}

// get expects a 200.
func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody) //nolint:gosec // a server that this program started
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req) //nolint:gosec // as above
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("GET %s: %s", url, res.Status)
	}
	return res, nil
}

// freeAddr finds a free port below those that systems give to outgoing connections, so that no client takes it before
// the server does.
func freeAddr(ctx context.Context) (string, error) {
	var last error
	for range 100 {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
		last = err
	}
	return "", fmt.Errorf("find a free port: %w", last)
}
