package rush

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

// patience is how long a buyer, or a reader of the sale, repeats requests that leave the outcome open.
const patience = 2 * time.Minute

// Buyers are simulated buyers and the sale that they order from.
type Buyers struct {
	// Servers of one system, used in turn.
	Clients   []*Client
	VoucherID string
	// Initial stock of the sale.
	Stock int64
	// Access tokens, one per buyer.
	Tokens []string
	// The passes of the buyers; nil: the sale needs none.
	Passes   []string
	Parallel int // concurrent buyers
	// The buyers arrive evenly over this time; 0: at once.
	For time.Duration
	// Progress, if not nil, is called about once a second with the numbers of buyers that are done and of orders.
	Progress func(done, orders int)
}

// Answer is the final result of one buyer.
type Answer struct {
	// Set if Code is "ok".
	Order Order
	// "ok", or the code of the last answer; "no_answer" if there was none.
	Code string
	// The order named by a duplicate_order.
	OrderID string
	// The latency of the last request.
	Latency time.Duration
	// Time from the start of Run to the final result.
	After time.Duration
	Tries int
}

// Report holds the results of all buyers.
type Report struct {
	// In the order of the tokens.
	Answers []Answer
	// Number of answers by code, including those that were retried.
	Codes   map[string]int
	Elapsed time.Duration
}

// Run places one order per buyer. Answers that leave the outcome open are retried after the time in Retry-After. If ctx
// ends, buyers stop retrying.
func (b *Buyers) Run(ctx context.Context) *Report {
	r := &Report{Answers: make([]Answer, len(b.Tokens)), Codes: map[string]int{}}

	var (
		mu           sync.Mutex
		done, orders atomic.Int64
		group        errgroup.Group
	)

	count := func(code string) {
		mu.Lock()
		defer mu.Unlock()
		r.Codes[code]++
	}

	stop := b.report(ctx, &done, &orders)

	group.SetLimit(b.Parallel)
	start := time.Now()
	for i := range b.Tokens {
		arrival := start.Add(b.For * time.Duration(i) / time.Duration(len(b.Tokens)))
		if wait := time.Until(arrival); wait > 0 {
			// Buy fails at once if ctx has ended.
			_ = loop.Sleep(ctx, wait)
		}

		group.Go(func() error {
			r.Answers[i] = b.Buy(ctx, i, "", count)
			r.Answers[i].After = time.Since(start)
			done.Add(1)

			if r.Answers[i].Code == "ok" {
				orders.Add(1)
			}

			return nil
		})
	}

	// The functions return no errors.
	_ = group.Wait()

	r.Elapsed = time.Since(start)
	stop()
	return r
}

func (b *Buyers) report(ctx context.Context, done, orders *atomic.Int64) func() {
	if b.Progress == nil {
		return func() {}
	}

	progress := loop.Every(time.Second, "report the progress", func(context.Context) error {
		b.Progress(int(done.Load()), int(orders.Load()))
		return nil
	})

	ctx, cancel := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() { loop.Run(ctx, slog.Default(), progress) })
	return func() { cancel(); reports.Wait() }
}

// Buy repeats the order of the buyer with this index until the answer is final, at the next server each time, and calls
// count with the code of each answer. All tries have the same Idempotency-Key, unless that is empty.
func (b *Buyers) Buy(ctx context.Context, buyer int, key string, count func(code string)) Answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	var a Answer
	token := b.Tokens[buyer]
	pass := ""
	if b.Passes != nil {
		pass = b.Passes[buyer]
	}

	for a.Tries = 1; ; a.Tries++ {
		client := b.Clients[(buyer+a.Tries-1)%len(b.Clients)]
		start := time.Now()
		o, err := client.Place(ctx, token, b.VoucherID, key, pass)
		a.Latency = time.Since(start)
		wait := time.Second
		var p *Problem

		switch {
		case err == nil && o.Status == Queued:
			count(Queued)
			a.Code, a.Order = b.Watch(ctx, buyer, o)
		case err == nil:
			a.Code = "ok"
			a.Order = o
		case errors.As(err, &p):
			a.Code = p.Code
			a.OrderID = p.OrderID
			wait = max(p.RetryAfter, 10*time.Millisecond)
		default:
			a.Code = "no_answer"
		}

		count(a.Code)

		if !tryAgain(a.Code) || loop.Sleep(ctx, wait) != nil {
			return a
		}
	}
}

// watchEvery is the interval at which a queued order is polled.
const watchEvery = 50 * time.Millisecond

// Watch polls an order of a buyer until it is decided, at the next server each time. An order that the servers lost
// together with their Redis is not found any more; its code is lost.
func (b *Buyers) Watch(ctx context.Context, buyer int, queued Order) (string, Order) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	for n := 0; ; n++ {
		o, err := b.Clients[(buyer+n)%len(b.Clients)].Order(ctx, b.Tokens[buyer], queued.ID)
		var p *Problem
		switch {
		case err == nil && o.Status == "failed" && o.Reason == "internal":
			return lost, o
		case err == nil && o.Status == "failed":
			return o.Reason, o
		case err == nil && o.Status != Queued:
			return "ok", o
		case errors.As(err, &p) && p.Code == "not_found":
			return lost, queued
		}

		if loop.Sleep(ctx, watchEvery) != nil {
			return "no_answer", queued
		}
	}
}

// lost is the code of a queued order that no longer exists or that the server could not store.
const lost = "lost"

func tryAgain(code string) bool {
	switch code {
	case "order_in_progress", "rate_limited", "overloaded", "unavailable", "no_answer", lost:
		return true
	}
	return false
}

// Percentile returns the latency that p percent of the buyers did not exceed, by the nearest rank; 0 without answers.
func (r *Report) Percentile(p int) time.Duration {
	if len(r.Answers) == 0 {
		return 0
	}

	all := make([]time.Duration, len(r.Answers))
	for i, a := range r.Answers {
		all[i] = a.Latency
	}

	slices.Sort(all)
	return all[max((len(all)*p+99)/100-1, 0)]
}

// Orders returns the number of buyers with an order, and the time from the start until the last of them had it.
func (r *Report) Orders() (int, time.Duration) {
	var n int
	var last time.Duration
	for _, a := range r.Answers {
		if a.Code == "ok" {
			n++
			last = max(last, a.After)
		}
	}
	return n, last
}

// Check reads the sale and the orders of every buyer through the public API, and compares them with the answers. The
// stock of a sale may be cached, so broken invariants are checked again for up to 1.1 s.
func (b *Buyers) Check(ctx context.Context, r *Report) ([]domain.Verdict, error) {
	held, err := b.held(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the buyers' orders: %w", err)
	}

	for end := time.Now().Add(stockAge); ; {
		var v Voucher
		err := retryBusy(ctx, func() (err error) {
			v, err = b.Clients[0].Voucher(ctx, b.VoucherID)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the sale: %w", err)
		}

		verdicts := b.verdicts(v, held, r)
		if time.Now().After(end) || !slices.ContainsFunc(verdicts, domain.Verdict.Broken) {
			return verdicts, nil
		}

		time.Sleep(stockAge / 10)
	}
}

// stockAge exceeds the age of the stock in an answer.
const stockAge = 1100 * time.Millisecond

// readers is fewer than the concurrent reads that a server admits: on a busy machine it refused half of 256.
const readers = 32

func (b *Buyers) held(ctx context.Context) ([][]Order, error) {
	held := make([][]Order, len(b.Tokens))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(b.Parallel, readers))

	for i, token := range b.Tokens {
		group.Go(func() error {
			var orders []Order
			err := retryBusy(ctx, func() (err error) {
				orders, err = b.Clients[i%len(b.Clients)].Orders(ctx, token)
				return err
			})

			held[i] = slices.DeleteFunc(orders, func(o Order) bool {
				return o.VoucherID != b.VoucherID || !o.holdsUnit()
			})

			return err
		})
	}

	return held, group.Wait()
}

func (b *Buyers) verdicts(v Voucher, held [][]Order, r *Report) []domain.Verdict {
	var sold, greedy, untrue, soldOut int64
	ids := map[string]bool{}
	for i, orders := range held {
		a := r.Answers[i]
		sold += int64(len(orders))

		if len(orders) > 1 {
			greedy++
		}

		for _, o := range orders {
			ids[o.ID] = true
		}

		has := func(id string) bool { return slices.ContainsFunc(orders, func(o Order) bool { return o.ID == id }) }
		if a.Code == "ok" && !has(a.Order.ID) || a.Code == "duplicate_order" && !has(a.OrderID) ||
			a.Code == "sold_out" && len(orders) > 0 {
			untrue++
		}

		if a.Code == "sold_out" {
			soldOut++
		}
	}

	sale := domain.SaleTotals{
		InitialStock: b.Stock,
		Stock:        v.Stock,
		Active:       sold,
		OverLimit:    greedy,
	}

	return []domain.Verdict{
		domain.NewVerdict("I1", sale.Holds("I1"), "%d sold of %d", sold, b.Stock),
		domain.NewVerdict("I2", sale.Holds("I2"), "%d users with more than one", greedy),
		domain.NewVerdict("I3", sale.Holds("I3"), "%d sold + %d left = %d", sold, v.Stock, sold+v.Stock),
		domain.NewVerdict("I4", untrue == 0, "%d answers differ from the buyer's orders", untrue),
		domain.NewVerdict("I5", soldOut == 0 || v.Stock <= 0, "%d left, %d buyers answered sold_out", v.Stock, soldOut),
		domain.NewVerdict("I6", int64(len(ids)) == sold, "%d IDs of %d orders", len(ids), sold),
	}
}
