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
	"seckill/internal/domain"
)

const (
	upcomingWithin = 24 * time.Hour   // sales that begin within it are checked
	maxSales       = 1000             // checked sales of each status
	maxListed      = 3                // problems in one line
	totalsTimeout  = 30 * time.Second // of the totals of all sales, which take seconds with millions of orders
	gatesTimeout   = 10 * time.Second // of the check of all gates
)

// salesDoctor checks the sales that begin soon.
type salesDoctor struct {
	*examination
	sales []domain.Voucher // that begin within upcomingWithin, published or not; the earliest first
}

func newSalesDoctor(x *examination) *salesDoctor { return &salesDoctor{examination: x} }

func (s *salesDoctor) group() doctor.Group {
	return doctor.Group{
		Reach: doctor.Check{Name: "sales.upcoming", Run: s.checkUpcoming},
		Checks: []doctor.Check{
			{Name: "sales.schema", Run: s.checkSchema},
			{Name: "sales.windows", Run: s.checkWindows},
			{Name: "sales.books", Run: s.checkTotals, Deadline: totalsTimeout},
			{Name: "sales.gates", Run: s.checkGates, Deadline: gatesTimeout},
			{Name: "sales.queue", Run: s.checkQueue},
		},
	}
}

// checkUpcoming reads the sales for the other checks. It is skipped if that fails, because the checks of the database
// report the error.
func (s *salesDoctor) checkUpcoming(ctx context.Context) doctor.Result {
	err := s.storeErr
	if err == nil {
		s.sales, err = s.upcoming(ctx, time.Now())
	}
	if err != nil {
		return doctor.Result{Status: doctor.Skipped, Found: "cannot read the sales: see database.reachable and database.schema"}
	}
	if len(s.sales) == 0 {
		return doctor.Good("no sale begins within %s", upcomingWithin)
	}
	first := s.sales[0]
	return doctor.Good("%d sales begin within %s, the first is voucher %d in %s",
		len(s.sales), upcomingWithin, first.ID, time.Until(first.Sale.BeginAt).Round(time.Second))
}

// upcoming returns the sales that begin within upcomingWithin of now, the earliest first.
func (s *salesDoctor) upcoming(ctx context.Context, now time.Time) ([]domain.Voucher, error) {
	var sales []domain.Voucher
	for _, status := range []domain.VoucherStatus{domain.VoucherOn, domain.VoucherOff} {
		found, err := s.store.ListVouchers(ctx, domain.VoucherFilter{
			Status: status, State: domain.StateUpcoming, Now: now, Page: domain.Page{Limit: maxSales},
		})
		if err != nil {
			return nil, err
		}
		sales = append(sales, found...)
	}
	sales = slices.DeleteFunc(sales, func(v domain.Voucher) bool { return v.Sale == nil || v.Sale.BeginAt.Sub(now) > upcomingWithin })
	slices.SortFunc(sales, func(a, b domain.Voucher) int { return a.Sale.BeginAt.Compare(b.Sale.BeginAt) })
	return sales, nil
}

// checkSchema warns if migrations are pending before a sale: a server that starts during the sale would change its
// tables.
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
			return doctor.Bad(doctor.Warn, "seckill migrate up, before the sale: large tables take a while",
				"voucher %d begins in %s and migration %d is pending", s.sales[0].ID, time.Until(s.sales[0].Sale.BeginAt).Round(time.Second), v)
		}
	}
	return doctor.Good("no migration is pending")
}

func (s *salesDoctor) checkWindows(context.Context) doctor.Result {
	return windowsResult(s.sales, s.env.Config.PayTimeout)
}

// windowsResult reports sales that cannot sell any unit, or may end with unsold units.
func windowsResult(sales []domain.Voucher, payTimeout time.Duration) doctor.Result {
	var failures, warnings []string
	for _, v := range sales {
		var failure, warning string
		switch lasts := v.Sale.EndAt.Sub(v.Sale.BeginAt); {
		case lasts <= 0:
			failure = "ends before it begins"
		case v.Sale.LimitPerUser < 1:
			failure = "allows no orders per user (limit_per_user)"
		case v.Status != domain.VoucherOn:
			warning = "is not published"
		case v.Sale.Stock < 1:
			warning = "has no units"
		case lasts <= payTimeout:
			warning = fmt.Sprintf("lasts %s, so units that are not paid within %s return after its end", lasts, payTimeout)
		}
		if failure != "" {
			failures = append(failures, fmt.Sprintf("voucher %d %s", v.ID, failure))
		}
		if warning != "" {
			warnings = append(warnings, fmt.Sprintf("voucher %d %s", v.ID, warning))
		}
	}
	const change = "PATCH /api/v1/admin/vouchers/{id}, POST /api/v1/admin/vouchers/{id}/stock"
	switch {
	case len(failures) > 0:
		return doctor.Bad(doctor.Fail, change, "%s", shorten(failures))
	case len(warnings) > 0:
		return doctor.Bad(doctor.Warn, change, "%s", shorten(warnings))
	}
	return doctor.Good("%d sales have a valid window and units", len(sales))
}

// shorten joins the first maxListed elements and the number of the others.
func shorten(all []string) string {
	if more := len(all) - maxListed; more > 0 {
		return strings.Join(all[:maxListed], "; ") + fmt.Sprintf("; and %d more", more)
	}
	return strings.Join(all, "; ")
}

// checkTotals checks the invariants of all sales, including those that have begun.
func (s *salesDoctor) checkTotals(ctx context.Context) doctor.Result {
	totals, err := s.store.Books(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) { // a database that hangs fails database.reachable
		return doctor.Result{Status: doctor.Skipped, Found: fmt.Sprintf("too many orders to check within %s", totalsTimeout),
			Change: "seckill verify, which has no deadline"}
	}
	if err != nil {
		return doctor.Unanswered(err, "seckill verify, which has no deadline")
	}
	var wrong []string
	for _, b := range totals {
		for _, v := range b.Check() {
			wrong = append(wrong, fmt.Sprintf("voucher %d: %s: %s", b.VoucherID, v.Invariant, v.Detail))
		}
	}
	if len(wrong) > 0 {
		return doctor.Bad(doctor.Fail, "run seckill verify, which lists the orders; docs/reconcile.md describes the repair", "%s", shorten(wrong))
	}
	return doctor.Good("the totals of %d sales are consistent", len(totals))
}

// gatesSkipped returns why the gates cannot be checked, or "" if they can.
func (s *salesDoctor) gatesSkipped() string {
	switch {
	case s.env.Config.OrderLane != "queue":
		return "lane " + s.env.Config.OrderLane + " uses no gate"
	case s.shared == nil:
		return "Redis is unreachable: see redis.reachable"
	}
	return ""
}

// checkGates checks that each gate is loaded and matches the database, or can be loaded by the first buyer.
func (s *salesDoctor) checkGates(ctx context.Context) doctor.Result {
	if why := s.gatesSkipped(); why != "" {
		return doctor.Result{Status: doctor.Skipped, Found: why}
	}
	c := gateChecker{rdb: s.shared, gate: app.NewGate(s.shared, s.env.Config.QueueBacklog, s.env.Log), store: s.store}
	loaded := 0
	var wrong []string
	for _, v := range s.sales {
		diff, cold, err := s.checkGate(ctx, c, v.ID)
		switch {
		case errors.Is(err, domain.ErrGateBroken):
			wrong = append(wrong, fmt.Sprintf("voucher %d: the keys of its gate hold other data", v.ID))
		case err != nil:
			return doctor.Unanswered(err, "see redis.reachable and database.reachable")
		case cold:
		case !diff.matches():
			wrong = append(wrong, fmt.Sprintf("voucher %d: %s", v.ID, diff))
		default:
			loaded++
		}
	}
	if len(wrong) > 0 {
		return doctor.Bad(doctor.Warn, "seckill reconcile --apply, or start a server in lane queue, which rebuilds the gate", "%s", shorten(wrong))
	}
	return doctor.Good("%d of %d gates are loaded and match the database; the others can be loaded", loaded, len(s.sales))
}

// checkGate compares a gate with the database. It compares a second time if they differ, because operations in progress
// cause short differences. For a cold gate it returns an error if the data to load it cannot be read.
func (s *salesDoctor) checkGate(ctx context.Context, c gateChecker, voucherID int64) (diff gateDiff, cold bool, err error) {
	for range 2 {
		diff, err = c.compare(ctx, voucherID)
		if errors.Is(err, domain.ErrGateCold) {
			_, err = s.store.GateState(ctx, voucherID, nil)
			return diff, true, err
		}
		if err != nil || diff.matches() {
			return diff, false, err
		}
		select {
		case <-ctx.Done():
			return diff, false, ctx.Err()
		case <-time.After(gatePollInterval):
		}
	}
	return diff, false, nil
}

// checkQueue reports dead letters, and queued orders that no server confirms.
func (s *salesDoctor) checkQueue(ctx context.Context) doctor.Result {
	if s.shared == nil {
		return doctor.Result{Status: doctor.Skipped, Found: "Redis is unreachable: see redis.reachable"}
	}
	lag, err := app.ReadLag(ctx, s.shared)
	switch {
	case err != nil && ctx.Err() == nil && app.PingRedis(ctx, s.shared) != nil:
		return doctor.Result{Status: doctor.Skipped, Found: "Redis is unreachable: see redis.reachable"}
	case err != nil:
		return doctor.Unanswered(err, "see redis.reachable")
	case lag.Dead > 0:
		return doctor.Bad(doctor.Warn, "seckill dead-letters list, then replay or discard each", "%d dead letters: queued orders that could not be stored", lag.Dead)
	case lag.Unsettled > 0 && s.env.Config.OrderLane != "queue":
		return doctor.Bad(doctor.Warn, "start a server with SECKILL_ORDER_LANE=queue until they are confirmed",
			"%d orders wait in the queue, and servers in lane %s do not confirm them", lag.Unsettled, s.env.Config.OrderLane)
	}
	return doctor.Good("%d orders waiting, no dead letters", lag.Unsettled)
}
