package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/kit/loop"
)

// scenario is a group of measurements with its own section in the report.
type scenario struct {
	name, title string
	run         func(*bench, context.Context, *section) error
}

var scenarios = []scenario{
	// The first: the orders of others stay unpaid, and a buyer with several unpaid orders gets no place.
	{"room", "The waiting room", (*bench).room},

	{"orders", "Durable orders", (*bench).orders},
	{"keys", "Orders with an Idempotency-Key", (*bench).keys},
	{"soldout", "Sold-out answers", (*bench).soldOut},
	{"readers", "Reads while selling", (*bench).readers},
	{"visitors", "Purchases beside visitors that read variants of the list", (*bench).visitors},
	{"queue", "Orders accepted into the queue", (*bench).queue},
	{"embedded", "The embedded default: SQLite, embedded Redis, lane lock", (*bench).embedded},
	{"lock", "Lock cycles", (*bench).lockCycles},
	{"vouchers", "Concurrent sales", (*bench).vouchersAtOnce},
	{"servers", "Server processes on one database", (*bench).serversAtOnce},
	{"history", "Existing orders", (*bench).history},
}

func scenarioNames() []string {
	list := make([]string, len(scenarios))
	for i, s := range scenarios {
		list[i] = s.name
	}
	return list
}

// contender measures one run of at most the given length. The first sample is the subject's, the others are of loads
// that ran at the same time.
type contender func(ctx context.Context, limit time.Duration) ([]*sample, error)

// rounds runs the contenders in turn, each round starting with another one, and verifies the invariants after each
// round. A short uncounted run of each contender comes first, in which a new server opens connections and sizes its
// heap.
func (b *bench) rounds(ctx context.Context, sec *section, stacks []*stack, contenders ...contender) error {
	for _, c := range contenders {
		if _, err := c(ctx, b.opts.length/5); err != nil {
			return err
		}
	}

	for round := range b.opts.rounds {
		for i := range contenders {
			samples, err := contenders[(i+round)%len(contenders)](ctx, b.opts.length)
			if err != nil {
				return err
			}

			sec.samples = append(sec.samples, samples...)
			for _, m := range samples {
				b.progress("  %d/%d  %-40s %s", round+1, b.opts.rounds, m.subject, m)
			}
		}

		for _, st := range stacks {
			if err := st.verify(ctx); err != nil {
				return err
			}
		}
	}

	return nil
}

// servers starts servers on the shared stack, given as lanes or kinds of reference servers. They run until the scenario
// ends.
func (b *bench) servers(ctx context.Context, kinds ...string) (*stack, []*process, error) {
	st, err := b.stack(ctx)
	if err != nil {
		return nil, nil, err
	}

	servers := make([]*process, len(kinds))
	for i, kind := range kinds {
		switch kind {
		case bareGin, ginWithScript:
			servers[i], err = st.reference(ctx, kind)
		default:
			servers[i], err = st.serve(ctx, kind)
		}

		if err != nil {
			return nil, nil, err
		}
	}

	return st, servers, nil
}

// load returns a load of all connections.
func (b *bench) load(subject string, limit time.Duration, requests [][]byte, servers ...*process) load {
	return load{
		subject:  subject,
		servers:  servers,
		conns:    b.opts.conns,
		requests: requests,
		limit:    limit,
	}
}

// sale returns a run of all connections.
func (b *bench) sale(subject string, servers ...*process) sale {
	return sale{load: b.load(subject, 0, nil, servers...)}
}

func buyers(st *stack, o sale) contender {
	return func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		o.limit = limit
		return st.sell(ctx, o, nil)
	}
}

const bareSubject = "bare gin"

// bare returns a contender that sends the requests of the stack's newest sale to the bare gin, repeatedly until the
// time is over.
func (b *bench) bare(st *stack, p *process) contender {
	return func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		l := b.load(bareSubject, limit, st.requests([]string{st.newest}, false), p)
		return st.flood(ctx, l, created)
	}
}

// embedded runs the rush command against a server with default settings. The rate is the one that the command prints; the
// command also checks the answers. The CPU time per order includes the creation of the buyers and the final check of
// their orders.
func (b *bench) embedded(ctx context.Context, sec *section) error {
	st, p, err := b.servers(ctx, bareGin)
	if err != nil {
		return err
	}

	server, data, err := st.serveEmbedded(ctx)
	if err != nil {
		return err
	}

	// The requests to the bare gin need a voucher ID.
	if _, err := st.sales(ctx, server, 1, 1); err != nil {
		return err
	}

	buyers := strconv.Itoa(b.opts.rush[0])
	stock := strconv.Itoa(b.opts.rush[1])
	subject := "rush --buyers " + buyers + " --stock " + stock

	rush := func(ctx context.Context, _ time.Duration) ([]*sample, error) {
		before := usageOf(ctx, []*process{server})

		out, client, err := seckill(ctx, b.binary, []string{data},
			"rush", "--url", "http://"+server.Addr, "--buyers", buyers, "--stock", stock)
		if err != nil {
			return nil, err
		}

		rate, err := parseRush(out)
		if err != nil {
			return nil, err
		}

		used := usageOf(ctx, []*process{server}).minus(before)
		used.client = client

		return []*sample{{
			subject: subject,
			elapsed: time.Duration(float64(b.opts.rush[1]) / rate * float64(time.Second)),
			counts:  int64(b.opts.rush[1]),
			used:    used,
		}}, nil
	}

	err = b.rounds(ctx, sec, nil, rush, b.bare(st, p[0]))
	b.report.add(bar{
		what:   "embedded default: " + subject + ", orders/s / bare gin",
		values: sec.ratios(subject, bareSubject, (*sample).rate),
		least:  0.1,
	})

	return err
}

var rushRate = regexp.MustCompile(`durable orders in [\d.]+s, (\d+) a second`)

// parseRush returns the rate in the output of the rush command, which has sold all units. The printed time has only two digits.
func parseRush(out string) (float64, error) {
	found := rushRate.FindStringSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("the rush command printed no rate:\n%s", out)
	}

	return strconv.ParseFloat(found[1], 64)
}

// room measures the polls of a waiting room with all users after the start of the sale, and the memory per waiting buyer.
func (b *bench) room(ctx context.Context, sec *section) error {
	st, p, err := b.servers(ctx, "batch")
	if err != nil {
		return err
	}

	server := p[0]
	admin, err := st.admin(ctx, server)
	if err != nil {
		return err
	}

	sale, err := server.client.CreateSale(ctx, admin, "Benchmark", int64(len(st.tokens)))
	if err != nil {
		return fmt.Errorf("create a sale: %w", err)
	}

	err = server.client.ChangeVoucher(ctx, admin, sale.ID, map[string]any{
		"begin_at": time.Now().Add(10 * time.Minute),
		"end_at":   time.Now().Add(time.Hour),
		"entry": map[string]any{
			"mode":     "room",
			"rate":     500,
			"opens_at": time.Now().Add(-time.Minute),
			"pass_ttl": 3600,
		},
	})
	if err != nil {
		return fmt.Errorf("open the room: %w", err)
	}

	before := residentMiB(server.PID())
	began := time.Now()
	requests, err := st.join(ctx, server, sale.ID, b.opts.conns)
	if err != nil {
		return fmt.Errorf("join the room: %w", err)
	}

	sec.note("%d buyers got their places in %.1f s.", len(requests), time.Since(began).Seconds())

	if err := server.client.ChangeVoucher(ctx, admin, sale.ID, map[string]any{"begin_at": time.Now()}); err != nil {
		return fmt.Errorf("start the sale: %w", err)
	}

	// The draw of the lobby, and the first admissions.
	if err := loop.Sleep(ctx, 3*time.Second); err != nil {
		return err
	}

	sec.samples, err = st.flood(ctx, b.load("polls in the line", b.opts.length, requests, server), accepted, "200")
	if err != nil {
		return err
	}

	b.progress("  %s", sec.samples[0])

	after := residentMiB(server.PID())
	sec.note("The server uses %.0f MiB before and %.0f MiB with the waiting buyers: %.0f bytes each.",
		before, after, (after-before)*(1<<20)/float64(len(requests)))

	return nil
}

// join gets a place for each user and returns the polls of all. It uses the client of the loads: another one took as long as
// the server.
func (s *stack) join(ctx context.Context, p *process, sale string, conns int) ([][]byte, error) {
	path := "/api/v1/vouchers/" + sale + "/entry"
	requests := make([][]byte, len(s.tokens))
	group, ctx := errgroup.WithContext(ctx)

	for worker := range conns {
		group.Go(func() error {
			c, err := dial(ctx, p.Addr)
			if err != nil {
				return err
			}
			defer c.Close() //nolint:errcheck // only read from

			for i := worker; i < len(s.tokens); i += conns {
				if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
					return err
				}

				kind, err := c.do(httpRequest(http.MethodPost, path, s.tokens[i]))
				if err != nil {
					return err
				}

				_, rest, found := bytes.Cut(c.response, ticketField)
				if !found {
					return fmt.Errorf("%w: %s instead of a place", errWrongAnswers, kind)
				}

				ticket, _, _ := bytes.Cut(rest, []byte{'"'})
				requests[i] = httpRequest(http.MethodGet, path, s.tokens[i], "X-Entry-Ticket: "+string(ticket))
			}

			return nil
		})
	}

	return requests, group.Wait()
}

var ticketField = []byte(`"ticket":"`)

// lockRun is the output of loadtest/lockbench by case (uncontended, contended), lock, round and figure: cycles per second, cpu in
// µs per cycle of client and Redis, and the p99 of the wait in ns. That program is a separate module, because it requires other
// lock libraries.
type lockRun map[string]map[string][]map[string]float64

// Names in lockRun.
const (
	rawLock = "two raw commands"
	ourLock = "Mutex"
)

func (b *bench) lockCycles(ctx context.Context, sec *section) error {
	run, tables, err := b.runLockbench(ctx)
	if err != nil {
		return fmt.Errorf("loadtest/lockbench: %w", err)
	}

	sec.note("%s", strings.TrimSpace(tables))

	alone := run["uncontended"]
	b.report.add(bar{
		what:   "lock: uncontended cycles/s / the two raw commands",
		values: quotients(each(alone[ourLock], "cycles"), each(alone[rawLock], "cycles")),
		byCPU:  quotients(each(alone[rawLock], "cpu"), each(alone[ourLock], "cpu")),
		least:  1,
	})

	contended := run["contended"]
	b.report.add(bar{
		what:   "lock: contended cycles/s / the best other library",
		values: quotients(each(contended[ourLock], "cycles"), best(contended, "cycles", slices.Max)),
		least:  1,
	})

	b.report.add(bar{
		what:   "lock: contended, p99 of the wait / the best other library",
		values: quotients(each(contended[ourLock], "p99"), best(contended, "p99", slices.Min)),
		most:   1,
	})

	return nil
}

func (b *bench) runLockbench(ctx context.Context) (lockRun, string, error) {
	numbers := filepath.Join(b.dir, "locks.json")
	cmd := exec.CommandContext(ctx, "go", "run", ".", //nolint:gosec // values of this program
		"-rounds", strconv.Itoa(b.opts.rounds), "-length", (b.opts.length / 2).String(), "-json", numbers)
	cmd.Dir = filepath.Join(b.root, "loadtest", "lockbench")
	cmd.Env = append(os.Environ(), "GOWORK=off")

	var problems strings.Builder
	cmd.Stderr = &problems

	tables, err := cmd.Output()
	if err != nil {
		return nil, "", fmt.Errorf("%w\n%s", err, problems.String())
	}

	text, err := os.ReadFile(numbers) //nolint:gosec // a directory of this program
	if err != nil {
		return nil, "", err
	}

	var run lockRun
	err = json.Unmarshal(text, &run)
	return run, string(tables), err
}

func each(rounds []map[string]float64, figure string) []float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = r[figure]
	}

	return values
}

func best(all map[string][]map[string]float64, figure string, choose func([]float64) float64) []float64 {
	values := make([]float64, len(all[ourLock]))
	for round := range values {
		var others []float64
		for name, rounds := range all {
			library, _, _ := strings.Cut(name, " ")
			if slices.Contains([]string{"redsync", "redislock", "rueidislock"}, library) {
				others = append(others, rounds[round][figure])
			}
		}
		values[round] = choose(others)
	}

	return values
}
