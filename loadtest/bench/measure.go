package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// sample is one measured run.
type sample struct {
	subject string // who was measured, in words
	conns   int
	*result
	cpu    usage
	allocs float64 // Go allocations of the server for an answer; NaN if it does not tell

	queued  bool
	backlog int64         // orders accepted and not committed at the last answer
	drained time.Duration // from the last answer until all were committed
}

// usage is CPU time, user and system.
type usage struct {
	server, database, redis, client time.Duration
}

func (u usage) minus(v usage) usage {
	return usage{u.server - v.server, u.database - v.database, u.redis - v.redis, u.client - v.client}
}

// measure runs a load against servers of a stack and notes what it cost.
func (s *stack) measure(ctx context.Context, subject string, servers []*process, l load) (*sample, error) {
	for _, p := range servers {
		l.addrs = append(l.addrs, p.addr)
	}
	mallocs := mallocsOf(ctx, servers)
	before := s.usage(servers)
	r, err := l.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s, %d connections: %w", subject, l.conns, err)
	}
	m := &sample{subject: subject, conns: l.conns, result: r, cpu: s.usage(servers).minus(before)}
	m.allocs = (mallocsOf(ctx, servers) - mallocs) / float64(r.total())
	return m, nil
}

func (s *stack) usage(servers []*process) usage {
	u := usage{database: cpuTime(s.dbPID), redis: cpuTime(s.rdbPID), client: cpuTime(os.Getpid())}
	for _, p := range servers {
		u.server += cpuTime(p.cmd.Process.Pid)
	}
	return u
}

// sell publishes sales, sends the crowd, each user once and to one of them, and holds the answers against the
// database: every answer must be the wanted one, and every order there. A lane that answers before the commit gets the
// time that its workers need, which is measured.
func (s *stack) sell(ctx context.Context, subject string, servers []*process, vouchers int, l load) (*sample, error) {
	sales, err := s.sales(ctx, servers[0], vouchers, int64(len(s.crowd)))
	if err != nil {
		return nil, err
	}
	l.requests = s.requests(sales)
	if l.keyed {
		for i, r := range l.requests {
			l.requests[i] = withKey(r, "8e03978e-40d5-43e8-bc93-"+sales[i%len(sales)]) // one of each user
		}
	}
	m, err := s.measure(ctx, subject, servers, l)
	if err != nil {
		return nil, err
	}
	want := created
	if m.answers[accepted] > 0 {
		want = accepted
	}
	if err := m.only(want); err != nil {
		return nil, fmt.Errorf("%s: %w", subject, err)
	}
	if want == accepted {
		if err := s.watchWorkers(ctx, m, sales); err != nil {
			return nil, fmt.Errorf("%s: %w", subject, err)
		}
	}
	return m, s.committed(ctx, sales, m.total())
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
	m.queued, m.backlog = true, m.total()-sold
	err = s.drain(ctx, sales, m.total())
	m.drained = time.Since(start)
	return err
}

// requests are the crowd's, in turn for each of the sales.
func (s *stack) requests(sales []string) [][]byte {
	requests := make([][]byte, len(s.crowd))
	for i, token := range s.crowd {
		requests[i] = orderRequest(sales[i%len(sales)], token)
	}
	return requests
}

func orderRequest(sale, token string) []byte {
	return request(strings.Replace(orderRoute, ":id", sale, 1), token)
}

// mallocsOf sums the heap allocations that the servers have made; NaN if one does not tell.
func mallocsOf(ctx context.Context, servers []*process) (sum float64) {
	for _, p := range servers {
		n, err := metric(ctx, p.ops, "go_memstats_mallocs_total")
		if err != nil {
			return math.NaN()
		}
		sum += n
	}
	return sum
}

var errNoMetric = errors.New("no such metric")

// metric reads a metric without labels.
func metric(ctx context.Context, ops, name string) (float64, error) {
	if ops == "" {
		return 0, errNoMetric
	}
	res, err := get(ctx, "http://"+ops+"/metrics")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close() //nolint:errcheck // read, or not wanted
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(errNoMetric, lines.Err())
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
