package rush

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// maxTries bounds how often a buyer presses again after an answer that says "try again".
const maxTries = 30

// Crowd is who buys what where.
type Crowd struct {
	Clients   []*Client // several servers of one system are used in turn
	VoucherID string
	Stock     int64    // of the sale before anybody bought
	Tokens    []string // one buyer each
	Parallel  int      // buyers at once
	// Progress is called about once a second, if it is not nil.
	Progress func(done, orders int)
}

// Answer is how a buyer's rush ended.
type Answer struct {
	Order   Order         // when Code is "ok"
	Code    string        // "ok", or the code of the last answer; "no_answer" if none came
	OrderID string        // the order that a duplicate_order named
	Latency time.Duration // of the last press
	After   time.Duration // since the rush began
	Tries   int
}

// Report is what the crowd saw.
type Report struct {
	Answers []Answer       // in the order of the tokens
	Codes   map[string]int // all answers by code, also those after which a buyer tried again
	Elapsed time.Duration
}

// Run sends every buyer once. A buyer who is told to try again does so after the time the server names.
func (c *Crowd) Run(ctx context.Context) *Report {
	r := &Report{Answers: make([]Answer, len(c.Tokens)), Codes: map[string]int{}}
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
	stop := c.report(&done, &orders)
	group.SetLimit(c.Parallel)
	start := time.Now()
	for i, token := range c.Tokens {
		group.Go(func() error {
			r.Answers[i] = c.buy(ctx, c.Clients[i%len(c.Clients)], token, count)
			r.Answers[i].After = time.Since(start)
			done.Add(1)
			if r.Answers[i].Code == "ok" {
				orders.Add(1)
			}
			return nil
		})
	}
	_ = group.Wait() // no buyer returns an error
	r.Elapsed = time.Since(start)
	stop()
	return r
}

// report calls Progress until the returned function is called.
func (c *Crowd) report(done, orders *atomic.Int64) (stop func()) {
	if c.Progress == nil {
		return func() {}
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-quit:
				return
			case <-t.C:
				c.Progress(int(done.Load()), int(orders.Load()))
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}

// buy presses the button until there is a final answer.
func (c *Crowd) buy(ctx context.Context, client *Client, token string, count func(string)) Answer {
	var a Answer
	for a.Tries = 1; ; a.Tries++ {
		start := time.Now()
		o, err := client.Place(ctx, token, c.VoucherID)
		a.Latency = time.Since(start)
		wait := time.Second
		var p *Problem
		switch {
		case err == nil && o.Status == Queued:
			count(Queued)
			a.Code, a.Order = c.watch(ctx, client, token, o)
		case err == nil:
			a.Code, a.Order = "ok", o
		case errors.As(err, &p):
			a.Code, a.OrderID = p.Code, p.OrderID
			wait = max(p.RetryAfter, 10*time.Millisecond)
		default:
			a.Code = "no_answer"
		}
		count(a.Code)
		if !tryAgain(a.Code) || a.Tries == maxTries {
			return a
		}
		select {
		case <-ctx.Done():
			return a
		case <-time.After(wait):
		}
	}
}

// patience bounds how long a buyer watches a queued order, and watchEvery how often he looks.
const (
	patience   = 2 * time.Minute
	watchEvery = 50 * time.Millisecond
)

// watch looks after a queued order until it is decided. One that the server lost with its Redis does not exist any
// more, and the buyer presses again.
func (c *Crowd) watch(ctx context.Context, client *Client, token string, queued Order) (code string, o Order) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		o, err := client.Order(ctx, token, queued.ID)
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
		select {
		case <-ctx.Done():
			return "no_answer", queued
		case <-time.After(watchEvery):
		}
	}
}

// lost is a queued order that is gone, or that the server could not store.
const lost = "lost"

// tryAgain says whether an answer leaves open what will become of the buyer.
func tryAgain(code string) bool {
	switch code {
	case "order_in_progress", "rate_limited", "overloaded", "unavailable", "no_answer", lost:
		return true
	}
	return false
}

// Percentile returns the latency that p percent of the buyers did not exceed.
func (r *Report) Percentile(p int) time.Duration {
	if len(r.Answers) == 0 {
		return 0
	}
	all := make([]time.Duration, len(r.Answers))
	for i, a := range r.Answers {
		all[i] = a.Latency
	}
	slices.Sort(all)
	return all[max((len(all)*p+99)/100-1, 0)] // nearest rank
}

// Orders counts the buyers who were answered with an order, and says when the last of them was.
func (r *Report) Orders() (n int, last time.Duration) {
	for _, a := range r.Answers {
		if a.Code == "ok" {
			n++
			last = max(last, a.After)
		}
	}
	return n, last
}

// Verdict is one promise of the server, held against what the crowd saw and what the server shows afterwards.
type Verdict struct {
	Promise string
	Holds   bool
	Detail  string
}

// Check reads the books through the public API: the sale, and the orders of every buyer.
func (c *Crowd) Check(ctx context.Context, r *Report) ([]Verdict, error) {
	held, err := c.held(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the buyers' orders: %w", err)
	}
	for end := time.Now().Add(stockAge); ; {
		var v Voucher
		err := patiently(ctx, busy, func() (err error) {
			v, err = c.Clients[0].Voucher(ctx, c.VoucherID)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the sale: %w", err)
		}
		verdicts := c.verdicts(v, held, r)
		if time.Now().After(end) || !slices.ContainsFunc(verdicts, func(v Verdict) bool { return !v.Holds }) {
			return verdicts, nil
		}
		time.Sleep(stockAge / 10)
	}
}

// stockAge is more than the age that the stock in an answer may have.
const stockAge = 1100 * time.Millisecond

// busy are the answers of a server that will say the same, in a moment, as it would have said now.
var busy = []string{"unavailable", "overloaded"}

// held reads the active orders of this sale, by buyer.
func (c *Crowd) held(ctx context.Context) ([][]Order, error) {
	held := make([][]Order, len(c.Tokens))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.Parallel)
	for i, token := range c.Tokens {
		group.Go(func() error {
			var orders []Order
			err := patiently(ctx, busy, func() (err error) {
				orders, err = c.Clients[i%len(c.Clients)].Orders(ctx, token)
				return err
			})
			held[i] = slices.DeleteFunc(orders, func(o Order) bool {
				return o.VoucherID != c.VoucherID || !o.holdsUnit()
			})
			return err
		})
	}
	return held, group.Wait()
}

func (c *Crowd) verdicts(v Voucher, held [][]Order, r *Report) []Verdict {
	var sold, greedy, untrue, left int64
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
			left++
		}
	}
	undersold := left > 0 && v.Stock > 0
	return []Verdict{
		{"I1 no oversell", sold <= c.Stock, fmt.Sprintf("%d sold of %d", sold, c.Stock)},
		{"I2 one order per user", greedy == 0, fmt.Sprintf("%d users with more than one", greedy)},
		{"I3 conservation", sold+v.Stock == c.Stock, fmt.Sprintf("%d sold + %d left = %d", sold, v.Stock, sold+v.Stock)},
		{"I4 answers are true", untrue == 0, fmt.Sprintf("%d answers differ from the buyer's orders", untrue)},
		{"I5 no undersell", !undersold, fmt.Sprintf("%d left, %d buyers heard sold_out", v.Stock, left)},
		{"I6 order ids unique", int64(len(ids)) == sold, fmt.Sprintf("%d ids of %d orders", len(ids), sold)},
	}
}
