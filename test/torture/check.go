package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/ops/rush"
	"seckill/internal/sale/admission"
	"seckill/test/env/servers"
)

// checkTimeout bounds a check during the campaign, when the database may not answer.
const checkTimeout = 5 * time.Second

// checkRepeatedly checks I1 to I3 in a snapshot of the database until ctx ends. A check fails while the database is in a fault.
func (c *campaign) checkRepeatedly(ctx context.Context) {
	for loop.Sleep(ctx, checkInterval) == nil {
		bounded, stop := context.WithTimeout(ctx, checkTimeout)
		if c.checkTotals(bounded) == nil {
			c.checks++
		}
		stop()
	}
}

func (c *campaign) checkTotals(ctx context.Context) error {
	sales, err := c.system.store.SaleTotals(ctx)
	if err != nil {
		return err
	}

	for _, sale := range sales {
		for _, v := range sale.Check() {
			c.ledger.violate(v.Invariant, "voucher %d: %s", sale.VoucherID, v.Detail)
		}
	}

	return nil
}

func (c *campaign) checkFinally(ctx context.Context) {
	checks := []func(context.Context) error{c.settle, c.checkTotals, c.checkAnswers, c.checkChanges}
	for _, check := range checks {
		if err := check(ctx); err != nil {
			c.ledger.violate("I5", "a final check was not possible: %v", err)
		}
	}

	c.verify(ctx)
}

// verified matches a violation in the output of verify.
var verified = regexp.MustCompile(`(?m)^  (.*?): (I[1-6]): (.*)$`)

// verify runs the command of that name, which also compares Redis with the database.
func (c *campaign) verify(ctx context.Context) {
	out, err := c.system.command(ctx, "verify")
	if err == nil {
		return
	}

	found := verified.FindAllStringSubmatch(out, -1)
	for _, v := range found {
		c.ledger.violate(v[2], "%s: %s", v[1], v[3])
	}

	if len(found) == 0 {
		c.ledger.violate("I5", "seckill verify: %v\n%s", err, strings.TrimSpace(out))
	}
}

func (c *campaign) settle(ctx context.Context) error {
	if c.cfg.Lane != "queue" {
		return nil
	}

	rdb, err := app.SharedRedis(app.Config{RedisAddrs: c.system.redis.addrs, RedisSentinel: c.system.redis.sentinel})
	if err != nil {
		return err
	}
	defer rdb.Close() //nolint:errcheck // only read from

	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()

	gate := admission.New(admission.Config{Redis: rdb})
	return servers.Until(ctx, func() error {
		lag, err := gate.Lag(ctx)
		if err == nil && lag.Unsettled > 0 {
			err = fmt.Errorf("%d orders are queued", lag.Unsettled)
		}
		return err
	})
}

// storedOrder is an order in the database.
type storedOrder struct {
	user    int64
	voucher int64
	status  domain.OrderStatus
	active  bool
}

func (c *campaign) checkAnswers(ctx context.Context) error {
	stored, err := c.storedOrders(ctx)
	if err != nil {
		return err
	}

	// The active order of each user.
	holds := map[int64]int64{}
	for id, o := range stored {
		if o.active {
			holds[o.user] = id
		}
	}

	owner := map[int64]int64{}
	for i, p := range c.purchases {
		e := c.ledger.entry(i)
		if e.order != 0 {
			c.checkOrder(p, e, stored)
			c.checkOwner(p, e, owner)
			continue
		}

		if e.code == "sold_out" && holds[p.user] != 0 && !c.failedOver(e) {
			c.ledger.violate("I4", "user %d holds order %d and was answered sold_out", p.user, holds[p.user])
		}
	}

	return nil
}

func (c *campaign) checkOrder(p purchase, e entry, stored map[int64]storedOrder) {
	voucher := c.sales[p.sale].VoucherID
	o, exists := stored[e.order]
	switch {
	case !exists:
		c.ledger.violate("I4", "order %d of user %d was answered and is not in the database", e.order, p.user)
	case o.user != p.user || fmt.Sprint(o.voucher) != voucher:
		c.ledger.violate("I4", "order %d of user %d for voucher %s is one of user %d for voucher %d", e.order, p.user, voucher, o.user, o.voucher)
	case !slices.Contains(e.want, o.status):
		c.ledger.violate("I4", "order %d is %s; its buyer was answered %v", e.order, o.status, e.want)
	}
}

func (c *campaign) checkOwner(p purchase, e entry, owner map[int64]int64) {
	other, taken := owner[e.order]
	if taken {
		c.ledger.violate("I6", "order %d was given to users %d and %d", e.order, other, p.user)
	}

	owner[e.order] = p.user
}

func (c *campaign) storedOrders(ctx context.Context) (map[int64]storedOrder, error) {
	rows, err := c.system.db.QueryContext(ctx, "SELECT id, user_id, voucher_id, status, slot IS NOT NULL FROM voucher_orders")
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // only read from

	orders := map[int64]storedOrder{}
	for rows.Next() {
		var id int64
		var o storedOrder
		if err := rows.Scan(&id, &o.user, &o.voucher, &o.status, &o.active); err != nil {
			return nil, err
		}

		orders[id] = o
	}

	return orders, rows.Err()
}

// failedOver reports whether Redis failed over during a purchase in lane queue. The old master may then go on deciding, so
// that it admits a buyer whose repeated request the new one refuses, or the reverse.
func (c *campaign) failedOver(e entry) bool {
	if c.cfg.Lane != "queue" {
		return false
	}

	began := e.began.Sub(c.ledger.began)
	ended := e.ended.Sub(c.ledger.began)
	return slices.ContainsFunc(c.faults, func(f *Fault) bool {
		return failsOver(f.Kind) && f.Begin < ended && f.End > began
	})
}

func (c *campaign) checkChanges(ctx context.Context) error {
	for _, change := range c.ledger.changes {
		var n, sum int64
		row := c.system.db.QueryRowContext(ctx, "SELECT COUNT(*), COALESCE(SUM(delta), 0) FROM stock_changes WHERE reason = ?", change.reason)
		if err := row.Scan(&n, &sum); err != nil {
			return err
		}

		var want int64
		switch change.outcome {
		case made:
			want = 1
		case unknown:
			want = min(n, 1)
		}

		if n != want || sum != want*change.delta {
			c.ledger.violate("I4", "%s of the stock by %d was made %d times instead of %d", change.reason, change.delta, n, want)
		}
	}

	return nil
}

// ledger records what buyers and admins were answered, and the violations. It is safe for concurrent use.
type ledger struct {
	began time.Time

	mu sync.Mutex
	// Answers to purchases by code.
	codes map[string]int
	// By purchase.
	entries    []entry
	changes    []stockChange
	violations []Violation
	// Violations beyond maxViolations.
	further int
}

// entry is the last answer to a purchase.
type entry struct {
	code string
	// 0: none.
	order int64
	began time.Time
	ended time.Time
	// The order has one of these.
	want []domain.OrderStatus
}

// stockChange is a change of a sale's stock by an admin.
type stockChange struct {
	// Unique.
	reason  string
	delta   int64
	outcome outcome
}

// outcome is what is known of a change.
type outcome int

const (
	refused outcome = iota
	made
	unknown
)

// Violation is a broken promise.
type Violation struct {
	Invariant string `json:"invariant"`
	Detail    string `json:"detail"`
	// Since the begin of the campaign.
	At time.Duration `json:"at_ns"`
}

// maxViolations bounds the violations that are kept.
const maxViolations = 100

func newLedger(purchases int) *ledger {
	return &ledger{
		began:   time.Now(),
		codes:   map[string]int{},
		entries: make([]entry, purchases),
	}
}

func (l *ledger) count(code string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.codes[code]++
}

func (l *ledger) answered(i int, a rush.Answer, began time.Time) {
	e := entry{
		code:  a.Code,
		began: began,
		ended: time.Now(),
		want:  []domain.OrderStatus{domain.OrderPendingPayment},
	}

	if a.Code == "ok" {
		id, err := strconv.ParseInt(a.Order.ID, 10, 64)
		if err != nil {
			l.violate("I4", "an order has the id %q", a.Order.ID)
			return
		}
		e.order = id
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[i] = e
}

func (l *ledger) expect(i int, statuses ...domain.OrderStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[i].want = statuses
}

func (l *ledger) expectAlso(i int, statuses ...domain.OrderStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[i].want = append(slices.Clone(l.entries[i].want), statuses...)
}

func (l *ledger) entry(i int) entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[i]
}

// orders returns the number of purchases with an order.
func (l *ledger) orders() int {
	l.mu.Lock()
	defer l.mu.Unlock()

	n := 0
	for _, e := range l.entries {
		if e.order != 0 {
			n++
		}
	}

	return n
}

func (l *ledger) changed(c stockChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes = append(l.changes, c)
}

// violate records a broken promise, unless it is known.
func (l *ledger) violate(invariant, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()

	v := Violation{
		Invariant: invariant,
		Detail:    fmt.Sprintf(format, args...),
		At:        time.Since(l.began).Round(time.Millisecond),
	}

	for _, known := range l.violations {
		if known.Invariant == v.Invariant && known.Detail == v.Detail {
			return
		}
	}

	if len(l.violations) == maxViolations {
		l.further++
		return
	}

	l.violations = append(l.violations, v)
}
