package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/ops/rush"
	"seckill/internal/repo"
	"seckill/internal/service"
)

const (
	rushTimeout    = 3 * time.Minute // of one rush, including the checks at its end
	rushEndTimeout = 5 * time.Second // of the end of its sale
	rushParallel   = 256             // simulated buyers with a request in progress
	rushWindow     = time.Hour       // duration of the rush's sale
)

// rushRunner runs load simulations against this server over HTTP, one at a time. It implements domain.Rusher.
//
// The rate limits need no exception for it. Orders are limited per user, and a simulated buyer stays below that limit.
// Logins are limited per address, and the runner needs none: it signs the tokens itself, as the seed command does.
type rushRunner struct {
	store    *repo.Store
	tokens   *auth.Tokens
	vouchers *service.Vouchers

	mu sync.Mutex
	// The url of this server; empty before it listens and during shutdown.
	url    string
	last   domain.Rush
	begun  time.Time
	cancel context.CancelCauseFunc
	// Closed when the last rush has ended.
	done chan struct{}
}

var (
	errRushStopped = errors.New("the rush was stopped")
	errRushTimeout = fmt.Errorf("the rush took longer than %s", rushTimeout)
	errShutdown    = errors.New("the server is shutting down")
)

func reasonOf(err error) domain.RushReason {
	switch {
	case errors.Is(err, errRushStopped):
		return domain.RushStopped
	case errors.Is(err, errRushTimeout):
		return domain.RushTimeout
	case errors.Is(err, errShutdown):
		return domain.RushShutdown
	}

	return ""
}

func newRushRunner(store *repo.Store, tokens *auth.Tokens, vouchers *service.Vouchers) *rushRunner {
	return &rushRunner{
		store:    store,
		tokens:   tokens,
		vouchers: vouchers,
		last:     domain.Rush{State: domain.RushIdle},
	}
}

// setURL sets the address of this server. While it is empty, Start returns domain.ErrUnavailable.
func (r *rushRunner) setURL(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.url = url
}

// close refuses further rushes and cancels a running one. It waits for its end, but not longer than ctx.
func (r *rushRunner) close(ctx context.Context) {
	r.setURL("")
	r.stop(ctx, errShutdown)
}

// Start implements domain.Rusher. The sale is created in the name of the admin. The rush continues after ctx ends. A call
// during the creation of a sale waits for it, which is the time of one transaction.
func (r *rushRunner) Start(ctx context.Context, claim *domain.Claim, admin int64, plan domain.RushPlan) (domain.Rush, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	switch {
	case r.url == "":
		return domain.Rush{}, domain.ErrUnavailable
	case r.last.State == domain.RushRunning:
		return domain.Rush{}, domain.ErrInvalidState
	}

	id, err := r.createSale(ctx, claim, admin, plan.Stock)
	if err != nil {
		return domain.Rush{}, err
	}

	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan struct{})
	url := r.url
	r.begun = time.Now()
	r.cancel = cancel
	r.done = done
	r.last = domain.Rush{
		State:     domain.RushRunning,
		VoucherID: id,
		Buyers:    plan.Buyers,
		Stock:     plan.Stock,
	}

	go func() {
		defer close(done)
		defer cancel(nil)

		err := errors.Join(r.run(running, url, id, plan), r.endSale(running, admin, id))
		r.update(func(last *domain.Rush) {
			last.State = domain.RushDone
			last.Took = domain.Milliseconds(time.Since(r.begun))
			if err != nil {
				last.State = domain.RushFailed
				last.Reason = reasonOf(err)
				last.Detail = err.Error()
			}
		})
	}()

	return r.last, nil
}

func (r *rushRunner) update(change func(*domain.Rush)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.last)
}

func (r *rushRunner) createSale(ctx context.Context, claim *domain.Claim, admin, stock int64) (int64, error) {
	now := time.Now().UTC()
	v, err := r.vouchers.Create(ctx, claim, admin, domain.VoucherInput{
		VoucherFields: domain.VoucherFields{
			ShopID:      new(domain.ID(1)),
			Title:       new(RushTitle(stock)),
			PayValue:    new(int64(100)),
			ActualValue: new(int64(200)),
			BeginAt:     &domain.Time{Time: now.Add(-time.Minute)},
			EndAt:       &domain.Time{Time: now.Add(rushWindow)},
		},
		Stock: &stock,
		Force: true,
	})
	return v.ID, err
}

func (r *rushRunner) endSale(ctx context.Context, admin, id int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rushEndTimeout)
	defer cancel()
	_, err := r.vouchers.Change(ctx, admin, id, domain.VoucherChange{Status: new(domain.VoucherExpired)})
	return err
}

func (r *rushRunner) run(ctx context.Context, url string, voucherID int64, plan domain.RushPlan) error {
	ctx, cancel := context.WithTimeoutCause(ctx, rushTimeout, errRushTimeout)
	defer cancel()

	err := r.simulate(ctx, url, voucherID, plan)
	if err != nil && ctx.Err() != nil {
		// It explains the error.
		return context.Cause(ctx)
	}
	return err
}

func (r *rushRunner) simulate(ctx context.Context, url string, voucherID int64, plan domain.RushPlan) error {
	seeded, err := SeedBuyers(ctx, r.store, r.tokens, plan.Buyers)
	if err != nil {
		return fmt.Errorf("seed the buyers: %w", err)
	}

	parallel := min(plan.Buyers, rushParallel)
	client, err := rush.NewClient(url, parallel)
	if err != nil {
		return err
	}
	defer client.Close()
	client.UserAgent = UserAgent()

	simulated := &rush.Buyers{
		Clients:   []*rush.Client{client},
		VoucherID: fmt.Sprint(voucherID),
		Stock:     plan.Stock,
		Parallel:  parallel,
		For:       time.Duration(plan.For) * time.Second,
		Progress:  r.progress,
	}

	for _, b := range seeded {
		simulated.Tokens = append(simulated.Tokens, b.Token)
	}

	report := simulated.Run(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}

	orders, _ := report.Orders()
	r.update(func(last *domain.Rush) {
		last.Answered = len(report.Answers)
		last.Orders = orders
		last.Outcomes = report.Codes
		last.P50 = domain.Milliseconds(report.Percentile(50))
		last.P99 = domain.Milliseconds(report.Percentile(99))
	})

	verdicts, err := simulated.Check(ctx, report)
	if err != nil {
		return err
	}

	count, err := r.store.CountSale(ctx, voucherID)
	if err != nil {
		return err
	}

	for i, v := range verdicts {
		verdicts[i] = withTotals(v, count.Totals)
	}

	r.update(func(last *domain.Rush) { last.Verdicts = verdicts })
	return nil
}

// withTotals replaces the verdict on I1 or I3 by that of the database: the sale is public, so other users may have
// bought units that the simulated buyers cannot see.
func withTotals(v domain.Verdict, b domain.SaleTotals) domain.Verdict {
	for _, p := range b.Invariants() {
		if p.ID == v.ID && (p.ID == "I1" || p.ID == "I3") {
			return p
		}
	}
	return v
}

func (r *rushRunner) progress(answered, orders int) {
	r.update(func(last *domain.Rush) {
		last.Answered = answered
		last.Orders = orders
	})
}

// Last implements domain.Rusher.
func (r *rushRunner) Last() domain.Rush {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last
	if last.State == domain.RushRunning {
		last.Took = domain.Milliseconds(time.Since(r.begun))
	}
	return last
}

// Stop implements domain.Rusher.
func (r *rushRunner) Stop(ctx context.Context) { r.stop(ctx, errRushStopped) }

func (r *rushRunner) stop(ctx context.Context, cause error) {
	r.mu.Lock()
	running := r.last.State == domain.RushRunning
	cancel := r.cancel
	done := r.done
	r.mu.Unlock()

	if !running {
		return
	}

	cancel(cause)
	select {
	case <-done:
	case <-ctx.Done():
	}
}
