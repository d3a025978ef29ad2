package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"seckill/internal/app"
	"seckill/internal/doctor"
	"seckill/internal/service"
)

const (
	// soon is how far ahead the doctor looks for sales.
	soon = 24 * time.Hour
	// mostSales bounds how many of them it looks at, and how many it names in a line.
	mostSales  = 1000
	namedSales = 3
	// booksPatience bounds the accounts of all sales: with millions of orders they take seconds.
	booksPatience = 30 * time.Second
	// gatePatience bounds the look at the gates. Between two looks at one that does not fit there is gateEvery.
	gatePatience = 10 * time.Second
)

// salesDoctor looks at the sales that begin soon.
type salesDoctor struct {
	*examination
	sales []service.Voucher // that begin soon, on the shelf or not; the earliest first
}

func newSalesDoctor(x *examination) *salesDoctor { return &salesDoctor{examination: x} }

func (s *salesDoctor) group() doctor.Group {
	return doctor.Group{
		Reach: doctor.Check{Name: "sales.upcoming", Run: s.checkUpcoming},
		Checks: []doctor.Check{
			{Name: "sales.schema", Run: s.checkSchema},
			{Name: "sales.windows", Run: s.checkWindows},
			{Name: "sales.books", Run: s.checkBooks, Deadline: booksPatience},
			{Name: "sales.gates", Run: s.checkGates, Deadline: gatePatience},
			{Name: "sales.queue", Run: s.checkQueue},
		},
	}
}

// checkUpcoming finds the sales for the others. Whatever keeps it from that is told by the checks of the database.
func (s *salesDoctor) checkUpcoming(ctx context.Context) doctor.Result {
	err := s.storeErr
	if err == nil {
		s.sales, err = s.upcoming(ctx, time.Now())
	}
	if err != nil {
		return doctor.Result{Status: doctor.Skipped, Found: "the sales cannot be read: see database.reachable and database.schema"}
	}
	if len(s.sales) == 0 {
		return doctor.Good("no sale begins within %s", soon)
	}
	first := s.sales[0]
	return doctor.Good("%d sales begin within %s, the first is voucher %d in %s",
		len(s.sales), soon, first.ID, time.Until(first.Sale.BeginAt).Round(time.Second))
}

// upcoming reads the sales that begin within soon.
func (s *salesDoctor) upcoming(ctx context.Context, now time.Time) ([]service.Voucher, error) {
	var sales []service.Voucher
	for _, status := range []service.VoucherStatus{service.VoucherOn, service.VoucherOff} {
		found, err := s.store.ListVouchers(ctx, service.VoucherFilter{
			Status: status, State: service.StateUpcoming, Now: now, Page: service.Page{Limit: mostSales},
		})
		if err != nil {
			return nil, err
		}
		sales = append(sales, found...)
	}
	sales = slices.DeleteFunc(sales, func(v service.Voucher) bool { return v.Sale == nil || v.Sale.BeginAt.Sub(now) > soon })
	slices.SortFunc(sales, func(a, b service.Voucher) int { return a.Sale.BeginAt.Compare(b.Sale.BeginAt) })
	return sales, nil
}

// checkSchema minds that a server which starts into a sale would change tables under it.
func (s *salesDoctor) checkSchema(ctx context.Context) doctor.Result {
	if len(s.sales) == 0 {
		return doctor.Good("no sale begins soon")
	}
	known := knownMigrations(s.store.Dialect())
	applied, err := doctor.Applied(ctx, s.store.Pools()["write"], s.store.Dialect())
	if err != nil {
		return doctor.Unanswered(err, "see database.schema")
	}
	for _, v := range known {
		if !slices.Contains(applied, v) {
			return doctor.Bad(doctor.Warn, "seckill migrate up, now: large tables take a while",
				"voucher %d begins in %s and migration %d is pending", s.sales[0].ID, time.Until(s.sales[0].Sale.BeginAt).Round(time.Second), v)
		}
	}
	return doctor.Good("nothing is left to migrate")
}

func (s *salesDoctor) checkWindows(context.Context) doctor.Result {
	return windowsResult(s.sales, s.env.Config.PayTimeout)
}

// windowsResult says what would disappoint the crowd.
func windowsResult(sales []service.Voucher, payTimeout time.Duration) doctor.Result {
	var bad, doubtful []string
	for _, v := range sales {
		var wrong, odd string
		switch lasts := v.Sale.EndAt.Sub(v.Sale.BeginAt); {
		case lasts <= 0:
			wrong = "ends before it begins"
		case v.Sale.LimitPerUser < 1:
			wrong = "allows nobody an order (limit_per_user)"
		case v.Status != service.VoucherOn:
			odd = "is off the shelf"
		case v.Sale.Stock < 1:
			odd = "has no units"
		case lasts <= payTimeout:
			odd = fmt.Sprintf("lasts %s, so that what nobody pays for within %s is never sold", lasts, payTimeout)
		}
		if wrong != "" {
			bad = append(bad, fmt.Sprintf("voucher %d %s", v.ID, wrong))
		}
		if odd != "" {
			doubtful = append(doubtful, fmt.Sprintf("voucher %d %s", v.ID, odd))
		}
	}
	const change = "PATCH /api/v1/admin/vouchers/{id}, POST /api/v1/admin/vouchers/{id}/stock"
	switch {
	case len(bad) > 0:
		return doctor.Bad(doctor.Fail, change, "%s", few(bad))
	case len(doubtful) > 0:
		return doctor.Bad(doctor.Warn, change, "%s", few(doubtful))
	}
	return doctor.Good("%d sales begin before they end, and have units", len(sales))
}

// few joins the first of many.
func few(all []string) string {
	if more := len(all) - namedSales; more > 0 {
		return strings.Join(all[:namedSales], "; ") + fmt.Sprintf("; and %d more", more)
	}
	return strings.Join(all, "; ")
}

// checkBooks holds the accounts of all sales, running ones as well, against the invariants.
func (s *salesDoctor) checkBooks(ctx context.Context) doctor.Result {
	books, err := s.store.Books(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) { // that it hangs would be told by database.reachable
		return doctor.Result{Status: doctor.Skipped, Found: fmt.Sprintf("too many orders for %s", booksPatience),
			Change: "seckill verify, which has no deadline"}
	}
	if err != nil {
		return doctor.Unanswered(err, "seckill verify, which has no deadline")
	}
	var wrong []string
	for _, b := range books {
		for _, v := range b.Check() {
			wrong = append(wrong, fmt.Sprintf("voucher %d: %s: %s", b.VoucherID, v.Invariant, v.Detail))
		}
	}
	if len(wrong) > 0 {
		return doctor.Bad(doctor.Fail, "seckill verify names the orders, docs/reconcile.md says what to do", "%s", few(wrong))
	}
	return doctor.Good("the books of %d sales are right", len(books))
}

// gated says why there is no gate to look at; empty if there is.
func (s *salesDoctor) gated() string {
	switch {
	case s.env.Config.OrderLane != "queue":
		return "the lane " + s.env.Config.OrderLane + " asks no gate"
	case s.shared == nil:
		return "Redis is not there: see redis.reachable"
	}
	return ""
}

// checkGates looks whether each gate is loaded and right, or can be loaded by the first buyer.
func (s *salesDoctor) checkGates(ctx context.Context) doctor.Result {
	if why := s.gated(); why != "" {
		return doctor.Result{Status: doctor.Skipped, Found: why}
	}
	c := gateChecker{rdb: s.shared, gate: app.NewGate(s.shared, s.env.Config.QueueBacklog, s.env.Log), store: s.store}
	loaded := 0
	var wrong []string
	for _, v := range s.sales {
		view, cold, err := s.lookAtGate(ctx, c, v.ID)
		switch {
		case errors.Is(err, service.ErrGateBroken):
			wrong = append(wrong, fmt.Sprintf("voucher %d: the gate's keys are somebody else's", v.ID))
		case err != nil:
			return doctor.Unanswered(err, "see redis.reachable and database.reachable")
		case cold:
		case !view.fits():
			wrong = append(wrong, fmt.Sprintf("voucher %d: %s", v.ID, view))
		default:
			loaded++
		}
	}
	if len(wrong) > 0 {
		return doctor.Bad(doctor.Warn, "seckill reconcile --apply, or let a server in the lane queue rebuild it", "%s", few(wrong))
	}
	return doctor.Good("%d of %d gates are loaded and right, the others can be loaded", loaded, len(s.sales))
}

// lookAtGate compares a gate with the database, twice if need be: what is under way heals. A cold gate can be loaded if
// all that it is made of can be read.
func (s *salesDoctor) lookAtGate(ctx context.Context, c gateChecker, voucherID int64) (view gateView, cold bool, err error) {
	for range 2 {
		view, err = c.view(ctx, voucherID)
		if errors.Is(err, service.ErrGateCold) {
			_, err = s.store.GateState(ctx, voucherID, nil)
			return view, true, err
		}
		if err != nil || view.fits() {
			return view, false, err
		}
		select {
		case <-ctx.Done():
			return view, false, ctx.Err()
		case <-time.After(gateEvery):
		}
	}
	return view, false, nil
}

// checkQueue looks for orders that wait for somebody.
func (s *salesDoctor) checkQueue(ctx context.Context) doctor.Result {
	if s.shared == nil {
		return doctor.Result{Status: doctor.Skipped, Found: "Redis is not there: see redis.reachable"}
	}
	lag, err := app.ReadLag(ctx, s.shared)
	switch {
	case err != nil && ctx.Err() == nil && app.PingRedis(ctx, s.shared) != nil:
		return doctor.Result{Status: doctor.Skipped, Found: "Redis is not there: see redis.reachable"}
	case err != nil:
		return doctor.Unanswered(err, "see redis.reachable")
	case lag.Dead > 0:
		return doctor.Bad(doctor.Warn, "seckill dead-letters list, then replay or discard", "%d dead letters: queued orders that could not be stored", lag.Dead)
	case lag.Unsettled > 0 && s.env.Config.OrderLane != "queue":
		return doctor.Bad(doctor.Warn, "start a server with SECKILL_ORDER_LANE=queue until they are stored",
			"%d orders wait in the queue, which no server in the lane %s stores", lag.Unsettled, s.env.Config.OrderLane)
	}
	return doctor.Good("%d orders wait, no dead letters", lag.Unsettled)
}
