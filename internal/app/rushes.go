package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"seckill/internal/auth"
	"seckill/internal/repo"
	"seckill/internal/rush"
	"seckill/internal/service"
)

const (
	// rushTimeout bounds a rush that was started by an admin, its check included.
	rushTimeout = 3 * time.Minute
	// rushParallel is how many of its buyers press at once.
	rushParallel = 256
	// rushWindow is how long its sale lasts.
	rushWindow = time.Hour
)

// rushes sends crowds to this server itself, over HTTP, one at a time. It is a service.Rusher.
//
// The limits of requests need no exception: on orders they count by user, and a buyer presses less often than he may. Nobody
// logs in, which is limited by address: the tokens are signed here, as seed does.
type rushes struct {
	store    *repo.Store
	tokens   *auth.Tokens
	vouchers *service.Vouchers

	mu     sync.Mutex
	url    string // of this server; empty: it does not listen, or stops
	last   service.Rush
	begun  time.Time
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the last one has ended
}

var _ service.Rusher = (*rushes)(nil)

var (
	errRushStopped = errors.New("it was stopped")
	errRushTooLong = errors.New("it was not over in time")
	errServerStops = errors.New("the server stops")
)

func newRushes(store *repo.Store, tokens *auth.Tokens, vouchers *service.Vouchers) *rushes {
	return &rushes{store: store, tokens: tokens, vouchers: vouchers, last: service.Rush{State: service.RushIdle}}
}

// listen says where the server is.
func (r *rushes) listen(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.url = url
}

// close refuses further rushes, and ends the one that is under way: it waits for it as long as ctx lasts.
func (r *rushes) close(ctx context.Context) {
	r.listen("")
	r.stop(ctx, errServerStops)
}

// Start implements service.Rusher. The sale is the admin's; the crowd outlives his request.
func (r *rushes) Start(ctx context.Context, admin int64, buyers int, stock int64) (service.Rush, error) {
	running, cancel, err := r.begin(ctx, buyers, stock)
	if err != nil {
		return service.Rush{}, err
	}
	id, err := r.sale(ctx, admin, stock)
	if err != nil {
		r.finish(func(last *service.Rush) { *last = service.Rush{State: service.RushIdle} })
		cancel(nil)
		return service.Rush{}, err
	}
	r.note(func(last *service.Rush) { last.VoucherID = id })
	started := r.Last()
	go func() {
		defer cancel(nil)
		err := r.run(running, id, buyers, stock)
		r.finish(func(last *service.Rush) {
			last.State, last.Took = service.RushDone, time.Since(r.begun)
			if err != nil {
				last.State, last.Detail = service.RushFailed, err.Error()
			}
		})
	}()
	return started, nil
}

// begin takes the place of the one rush.
func (r *rushes) begin(ctx context.Context, buyers int, stock int64) (context.Context, context.CancelCauseFunc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.url == "":
		return nil, nil, service.ErrUnavailable
	case r.last.State == service.RushRunning:
		return nil, nil, service.ErrInvalidState
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r.last = service.Rush{State: service.RushRunning, Buyers: buyers, Stock: stock}
	r.begun, r.cancel, r.done = time.Now(), cancel, make(chan struct{})
	return ctx, cancel, nil
}

// note changes what is told of the rush.
func (r *rushes) note(change func(*service.Rush)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.last)
}

// finish is note for its end.
func (r *rushes) finish(change func(*service.Rush)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.last)
	close(r.done) // before anybody can begin the next one
}

// sale publishes the rush's own sale.
func (r *rushes) sale(ctx context.Context, admin, stock int64) (int64, error) {
	now := time.Now().UTC()
	shop, pay, actual, begin, end := int64(1), int64(100), int64(200), now.Add(-time.Minute), now.Add(rushWindow)
	title := "Rush of " + now.Format(time.DateTime)
	v, err := r.vouchers.Create(ctx, admin, service.VoucherInput{
		VoucherFields: service.VoucherFields{
			ShopID: &shop, Title: &title, PayValue: &pay, ActualValue: &actual, BeginAt: &begin, EndAt: &end,
		},
		Stock: &stock,
	})
	return v.ID, err
}

// run makes the buyers, sends them and judges the outcome.
func (r *rushes) run(ctx context.Context, voucherID int64, buyers int, stock int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, rushTimeout, errRushTooLong)
	defer cancel()
	made, err := SeedBuyers(ctx, r.store, r.tokens, buyers)
	if err != nil {
		return because(ctx, fmt.Errorf("make the buyers: %w", err))
	}
	parallel := min(buyers, rushParallel)
	r.mu.Lock()
	client, err := rush.NewClient(r.url, parallel)
	r.mu.Unlock()
	if err != nil {
		return because(ctx, err)
	}
	defer client.Close()
	crowd := &rush.Crowd{
		Clients: []*rush.Client{client}, VoucherID: fmt.Sprint(voucherID), Stock: stock, Parallel: parallel, Progress: r.progress,
	}
	for _, b := range made {
		crowd.Tokens = append(crowd.Tokens, b.Token)
	}
	report := crowd.Run(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	orders, _ := report.Orders()
	r.note(func(last *service.Rush) {
		last.Answered, last.Orders, last.Outcomes = len(report.Answers), orders, maps.Clone(report.Codes)
		last.P50, last.P99 = report.Percentile(50), report.Percentile(99)
	})
	verdicts, err := crowd.Check(ctx, report)
	if err != nil {
		return because(ctx, err)
	}
	count, err := r.store.CountSale(ctx, voucherID)
	if err != nil {
		return because(ctx, err)
	}
	r.note(func(last *service.Rush) {
		for _, v := range verdicts {
			verdict := service.Verdict{ID: v.ID, Title: v.Title, OK: v.Holds, Detail: v.Detail}
			last.Verdicts = append(last.Verdicts, byTheBooks(verdict, count.Books))
		}
	})
	return nil
}

// byTheBooks judges what the crowd cannot know: the sale is in the shop, and anybody may buy a unit of it.
func byTheBooks(v service.Verdict, b service.Books) service.Verdict {
	for _, p := range b.Invariants() {
		if p.ID == v.ID && (p.ID == "I1" || p.ID == "I3") {
			v.OK, v.Detail = *p.OK, p.Detail
		}
	}
	return v
}

// because is the reason why the context ended if it did, which is why everything else failed.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (r *rushes) progress(answered, orders int) {
	r.note(func(last *service.Rush) { last.Answered, last.Orders = answered, orders })
}

// Last implements service.Rusher.
func (r *rushes) Last() service.Rush {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last
	last.Verdicts = slices.Clone(last.Verdicts)
	if last.State == service.RushRunning {
		last.Took = time.Since(r.begun)
	}
	return last
}

// Stop implements service.Rusher.
func (r *rushes) Stop(ctx context.Context) { r.stop(ctx, errRushStopped) }

// stop ends the rush and waits for that.
func (r *rushes) stop(ctx context.Context, why error) {
	if done := r.end(why); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// end cancels the rush and returns what is closed when it has ended; nil: none is under way.
func (r *rushes) end(why error) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.State != service.RushRunning {
		return nil
	}
	r.cancel(why)
	return r.done
}
