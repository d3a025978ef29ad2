package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"seckill/internal/domain"
	"seckill/internal/ops/reconcile"
)

const (
	upcomingWithin = 24 * time.Hour   // sales that begin within it are checked
	maxSales       = 1000             // checked sales of each status
	maxListed      = 3                // problems in one line
	totalsTimeout  = 30 * time.Second // of the totals of all sales, which take seconds with millions of orders
	gatesTimeout   = 10 * time.Second // of the check of all gates
	differingFor   = time.Second      // how long a gate must differ, because operations in progress cause short differences
)

var redisUnreachable = Result{Status: Skipped, Found: "Redis is unreachable: see redis.reachable"}

// SalesStore is the database as the checks of sales use it.
type SalesStore interface {
	reconcile.Store
	ListVouchers(ctx context.Context, f domain.VoucherFilter) ([]domain.Voucher, error)
	SaleTotals(ctx context.Context) ([]domain.SaleTotals, error)
	// Admins returns the users with a role above buyer, and those whose phone is one of phones.
	Admins(ctx context.Context, phones []string) ([]domain.Admin, error)
}

// Sales describes the servers that hold the sales. Its checks concern mostly the sales that begin soon.
type Sales struct {
	// Nil: the database cannot be opened.
	Store SalesStore
	// Nil, like Lag: Redis is unreachable.
	Gate reconcile.Gate
	Lag  func(context.Context) (domain.QueueLag, error)
	Lane string
	// The time to pay of sales without one of their own.
	PayTimeout time.Duration
	// Phones of the configured admins.
	Admins []string
	// Whether roles need no second factor.
	Demo bool
	// Opens reports whether the secrets of the servers decrypt the second factor of a user. Nil: the secrets are unknown.
	Opens func(userID int64, factor []byte) bool

	// That begin within upcomingWithin, published or not; the earliest first.
	upcoming []domain.Voucher
}

// Group returns the checks. It does no I/O itself.
func (s Sales) Group() Group {
	return Group{
		Reach: Check{Name: "sales.upcoming", Run: s.checkUpcoming},
		Checks: []Check{
			{Name: "sales.windows", Run: s.checkWindows},
			{Name: "sales.books", Run: s.checkTotals, Deadline: totalsTimeout},
			{Name: "sales.gates", Run: s.checkGates, Deadline: gatesTimeout},
			{Name: "sales.queue", Run: s.checkQueue},
			{Name: "sales.admins", Run: s.checkAdmins},
		},
	}
}

// checkUpcoming reads the sales for the other checks. It is skipped if that fails, because the checks of the database
// report the error.
func (s *Sales) checkUpcoming(ctx context.Context) Result {
	if s.Store == nil || s.readUpcoming(ctx, time.Now()) != nil {
		return Result{Status: Skipped, Found: "cannot read the sales: see database.reachable and database.schema"}
	}
	if len(s.upcoming) == 0 {
		return Good("no sale begins within %.0f hours", upcomingWithin.Hours())
	}
	first := s.upcoming[0]
	return Good("sales that begin within %.0f hours: %d, the first is voucher %d in %s",
		upcomingWithin.Hours(), len(s.upcoming), first.ID, time.Until(first.Sale.BeginAt).Round(time.Second))
}

func (s *Sales) readUpcoming(ctx context.Context, now time.Time) error {
	for _, status := range []domain.VoucherStatus{domain.VoucherOn, domain.VoucherOff} {
		found, err := s.Store.ListVouchers(ctx, domain.VoucherFilter{
			Status: status,
			State:  domain.StateUpcoming,
			Now:    now,
			Page:   domain.Page{Limit: maxSales},
		})
		if err != nil {
			return err
		}

		s.upcoming = append(s.upcoming, found...)
	}

	s.upcoming = slices.DeleteFunc(s.upcoming, func(v domain.Voucher) bool { return v.Sale == nil || v.Sale.BeginAt.Sub(now) > upcomingWithin })
	slices.SortFunc(s.upcoming, func(a, b domain.Voucher) int { return a.Sale.BeginAt.Compare(b.Sale.BeginAt) })
	return nil
}

func (s *Sales) checkWindows(context.Context) Result {
	var failures, warnings []string
	for _, v := range s.upcoming {
		failure, warning := v.CheckSale(s.PayTimeout)
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
		return Bad(Fail, change, "%s", shorten(failures))
	case len(warnings) > 0:
		return Bad(Warn, change, "%s", shorten(warnings))
	}

	return Good("sales with a valid window and units: %d", len(s.upcoming))
}

func shorten(all []string) string {
	if more := len(all) - maxListed; more > 0 {
		return strings.Join(all[:maxListed], "; ") + fmt.Sprintf("; and %d more", more)
	}
	return strings.Join(all, "; ")
}

func (s *Sales) checkTotals(ctx context.Context) Result {
	totals, err := s.Store.SaleTotals(ctx)
	// A database that hangs fails database.reachable.
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Bad(Skipped, "seckill verify, which has no deadline", "too many orders to check within %s", totalsTimeout)
	}

	if err != nil {
		return Unanswered(err, "seckill verify, which has no deadline")
	}

	var wrong []string
	for _, b := range totals {
		for _, v := range b.Check() {
			wrong = append(wrong, fmt.Sprintf("voucher %d: %s: %s", b.VoucherID, v.Invariant, v.Detail))
		}
	}

	if len(wrong) > 0 {
		return Bad(Fail, "run seckill verify, which lists the orders; docs/operations.md describes the repair", "%s", shorten(wrong))
	}

	return Good("sales whose totals are consistent: %d", len(totals))
}

func (s *Sales) checkGates(ctx context.Context) Result {
	const change = "seckill reconcile --apply, or start a server in lane queue, which rebuilds the gate"
	switch {
	case s.Lane != "queue":
		return Result{Status: Skipped, Found: "lane " + s.Lane + " uses no gate"}
	case s.Gate == nil:
		return redisUnreachable
	}

	ids := make([]int64, len(s.upcoming))
	for i, v := range s.upcoming {
		ids[i] = v.ID
	}

	gates, err := reconcile.CompareAll(ctx, s.Gate, s.Store, ids, time.Now().Add(differingFor))
	switch {
	case errors.Is(err, domain.ErrGateBroken):
		return Bad(Warn, change, "%v: its keys hold other data", err)
	case err != nil:
		return Unanswered(err, "see redis.reachable and database.reachable")
	}

	var wrong []string
	for _, id := range slices.Sorted(maps.Keys(gates)) {
		if diff := gates[id]; !diff.Matches() {
			wrong = append(wrong, fmt.Sprintf("voucher %d: %s", id, diff))
		}
	}

	if len(wrong) > 0 {
		return Bad(Warn, change, "%s", shorten(wrong))
	}

	return Good("%d of %d gates are loaded and match the database; the others can be loaded", len(gates), len(ids))
}

func (s *Sales) checkQueue(ctx context.Context) Result {
	if s.Lag == nil {
		return redisUnreachable
	}

	lag, err := s.Lag(ctx)
	switch {
	case refused(err):
		return Unanswered(err, "see redis.reachable")
	case err != nil:
		return redisUnreachable
	case lag.DeadLetters > 0:
		return Bad(Warn, "seckill dead-letters list, then replay or discard each", "%d dead letters: queued orders that could not be stored", lag.DeadLetters)
	case lag.Unsettled > 0 && s.Lane != "queue":
		return Bad(Warn, "start a server with SECKILL_ORDER_LANE=queue until they are confirmed",
			"%d orders wait in the queue, and servers in lane %s do not confirm them", lag.Unsettled, s.Lane)
	}

	return Good("%d orders waiting, no dead letters", lag.Unsettled)
}

// checkAdmins warns of roles that are not in effect, because their users have no second factor, or one that no secret
// decrypts.
func (s *Sales) checkAdmins(ctx context.Context) Result {
	if s.Demo {
		return Good("demo mode: no role needs a second factor")
	}

	admins, err := s.Store.Admins(ctx, s.Admins)
	if err != nil {
		return Unanswered(err, "see database.schema")
	}

	enrolled := 0
	var missing, lost []string
	for _, a := range admins {
		enrolment := !a.EnrolledAt.IsZero()
		switch {
		case enrolment && s.Opens != nil && !s.Opens(a.User.ID, a.Factor):
			lost = append(lost, fmt.Sprint(a.User.ID))
		case !enrolment && (a.User.Role.NeedsSecondFactor() || slices.Contains(s.Admins, a.User.Phone)):
			missing = append(missing, fmt.Sprint(a.User.ID))
		default:
			enrolled++
		}
	}

	const change = "seckill admin enroll --phone <number>"
	switch {
	case len(lost) > 0:
		return Bad(Warn, change, "users whose second factor no secret decrypts cannot log in: %s",
			strings.Join(lost[:min(len(lost), maxListed)], ", "))
	case len(missing) > 0:
		return Bad(Warn, change, "users with a role but without a second factor are logged in as buyers: %s",
			strings.Join(missing[:min(len(missing), maxListed)], ", "))
	case enrolled == 0:
		return Bad(Warn, change, "no user has a role above buyer: sales cannot be published or changed")
	}

	return Good("%d users with a role above buyer", enrolled)
}
