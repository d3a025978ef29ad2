package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
)

// parallel is the number of buyers with a request in progress.
const parallel = 256

// fate is what becomes of an order.
type fate string

const (
	keep   fate = "left unpaid"
	repeat fate = "repeated with the same key"
	cancel fate = "cancelled"
	pay    fate = "paid"
	redeem fate = "redeemed"
	refund fate = "refunded"
)

// fates are those of twenty orders. The seed draws one of them for each.
var fates = slices.Concat(
	slices.Repeat([]fate{keep}, 10),
	slices.Repeat([]fate{repeat}, 2),
	slices.Repeat([]fate{cancel}, 3),
	slices.Repeat([]fate{pay}, 3),
	[]fate{redeem, refund},
)

func drawFates(seed uint64) func() fate {
	rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable
	return func() fate { return fates[rng.IntN(len(fates))] }
}

func (c *campaign) shop(ctx context.Context) {
	tick := time.NewTicker(time.Second / time.Duration(c.cfg.Rate))
	defer tick.Stop()

	var group errgroup.Group
	group.SetLimit(parallel)

	for i := range c.purchases {
		select {
		case <-ctx.Done():
		case <-tick.C:
			group.Go(func() error {
				c.live(ctx, i)
				return nil
			})
		}
	}

	c.lastCame = time.Since(c.ledger.began)

	// The functions return no errors.
	_ = group.Wait()
}

func (c *campaign) live(ctx context.Context, i int) {
	order := c.buy(ctx, i)
	if order == "" {
		return
	}

	p := c.purchases[i]
	token := c.sales[p.sale].Tokens[p.buyer]
	path := "/orders/" + order

	switch p.fate {
	case keep:
	case repeat:
		c.buyAgain(ctx, i, order)
	case cancel:
		c.move(ctx, i, token, path+"/cancel", "cancel", domain.OrderCancelled)
	case pay:
		c.pay(ctx, i, token, path)
	case redeem:
		if c.pay(ctx, i, token, path) {
			c.move(ctx, i, c.adminToken(), "/admin"+path+"/redeem", "redeem", domain.OrderRedeemed)
		}
	case refund:
		if c.pay(ctx, i, token, path) {
			c.move(ctx, i, token, path+"/refund", "refund", domain.OrderRefunding, domain.OrderRefunded)
		}
	}
}

func (c *campaign) buy(ctx context.Context, i int) string {
	p := c.purchases[i]
	sale := c.sales[p.sale]
	began := time.Now()
	a := sale.Buy(ctx, p.buyer, p.key("buy"), c.ledger.count)

	// The order of a try without an answer.
	for try := 1; a.Code == "duplicate_order"; try++ {
		named := a.OrderID
		a.Code, a.Order = sale.Watch(ctx, p.buyer, rush.Order{ID: named})
		if a.Code == "ok" {
			break
		}

		if try == 10 {
			c.ledger.violate("I4", "user %d was answered duplicate_order with order %s, which is %s", p.user, named, a.Code)
			break
		}

		a = sale.Buy(ctx, p.buyer, p.key("buy"), c.ledger.count)
	}

	if a.Code != "ok" {
		a.Order.ID = ""
	}

	c.ledger.answered(i, a, began)
	return a.Order.ID
}

func (c *campaign) buyAgain(ctx context.Context, i int, order string) {
	p := c.purchases[i]
	sale := c.sales[p.sale]

	a := sale.Buy(ctx, p.buyer, p.key("buy"), c.ledger.count)
	if a.Code == "ok" && a.Order.ID != order {
		c.ledger.violate("I4", "key %s: order %s was placed, a repeated request returned %s", p.key("buy"), order, a.Order.ID)
	}
}

func (c *campaign) pay(ctx context.Context, i int, token, path string) bool {
	c.ledger.expect(i, domain.OrderPendingPayment, domain.OrderPaid)

	for end := time.Now().Add(recovery); time.Now().Before(end); {
		// Without a key, so that a repeated request reaches the provider again: a killed server loses its notices.
		err := c.send(ctx, i, http.MethodPost, path+"/pay", token, "", nil, nil)
		if err != nil && !rig.HasCode(err, "invalid_state") {
			c.refused(ctx, i, "pay", err)
			return false
		}

		for range 10 {
			var o rush.Order
			err := c.send(ctx, i, http.MethodGet, path, token, "", nil, &o)
			if err == nil && o.Status == domain.OrderPaid.String() {
				c.ledger.expect(i, domain.OrderPaid)
				return true
			}

			if loop.Sleep(ctx, 200*time.Millisecond) != nil {
				return false
			}
		}
	}

	c.ledger.violate("I4", "%s is not paid %s after its payment was accepted", path, recovery)
	return false
}

func (c *campaign) move(ctx context.Context, i int, token, path, action string, to ...domain.OrderStatus) {
	c.ledger.expectAlso(i, to...)

	err := c.send(ctx, i, http.MethodPost, path, token, c.purchases[i].key(action), nil, nil)
	if err != nil {
		c.refused(ctx, i, action, err)
		return
	}

	c.ledger.expect(i, to...)
}

func (c *campaign) refused(ctx context.Context, i int, action string, err error) {
	if ctx.Err() == nil {
		c.ledger.violate("I4", "order %d: %s was refused: %v", c.ledger.entry(i).order, action, err)
	}
}

// send repeats a request until the answer is definite, at the next server each time.
func (c *campaign) send(ctx context.Context, first int, method, path, token, key string, in, out any) error {
	for try := first; ; try++ {
		err := c.clients[try%len(c.clients)].Send(ctx, method, path, token, key, in, out)
		if err == nil || definite(err) {
			return err
		}

		wait := 200 * time.Millisecond
		var p *rush.Problem
		if errors.As(err, &p) {
			wait = max(wait, p.RetryAfter)
		}

		if err := loop.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func definite(err error) bool {
	var p *rush.Problem
	if !errors.As(err, &p) || p.Status >= http.StatusInternalServerError {
		return false
	}

	return p.Code != "order_in_progress" && p.Code != "rate_limited"
}

// administrate changes the stock of the sales, about once a second, until ctx ends. The last change is completed.
func (c *campaign) administrate(ctx context.Context) {
	rng := rand.New(rand.NewPCG(c.cfg.Seed, 2)) //nolint:gosec // repeatable

	for n := 1; loop.Sleep(ctx, time.Second) == nil; n++ {
		sale := c.sales[rng.IntN(len(c.sales))]
		delta := rng.Int64N(9) - 4
		if delta != 0 {
			c.changeStock(context.WithoutCancel(ctx), n, sale.VoucherID, delta)
		}
	}
}

func (c *campaign) changeStock(ctx context.Context, n int, sale string, delta int64) {
	ctx, stop := context.WithTimeout(ctx, recovery)
	defer stop()

	change := stockChange{reason: "change " + strconv.Itoa(n), delta: delta}
	fields := map[string]any{"delta": delta, "reason": change.reason}
	err := c.send(ctx, n, http.MethodPost, "/admin/vouchers/"+sale+"/stock", c.adminToken(), change.reason, fields, nil)

	var p *rush.Problem
	switch {
	case err == nil:
		change.outcome = made
	case !errors.As(err, &p):
		change.outcome = unknown
	case p.Code != "invalid_state":
		// Otherwise the units were sold meanwhile.
		c.ledger.violate("I4", "%s of the stock was refused: %v", change.reason, err)
	}

	c.ledger.changed(change)
}

// buyTheRest lets the buyers without an order try again until no unit is left or every buyer has one. It ends with ctx.
func (c *campaign) buyTheRest(ctx context.Context) {
	for {
		wanted, err := c.unserved(ctx)
		if err == nil && len(wanted) == 0 {
			return
		}

		if ctx.Err() != nil {
			c.ledger.violate("I5", "units are left for %d buyers who got none within %s (%v)", len(wanted), recovery, err)
			return
		}

		var group errgroup.Group
		group.SetLimit(parallel)
		for _, i := range wanted {
			group.Go(func() error {
				c.buy(ctx, i)
				return nil
			})
		}

		// The functions return no errors.
		_ = group.Wait()
		_ = loop.Sleep(ctx, 500*time.Millisecond)
	}
}

// unserved returns the buyers without an order whose sale has units left, at most twice as many as units.
func (c *campaign) unserved(ctx context.Context) ([]int, error) {
	var left [numberOfSales]int
	for i, sale := range c.sales {
		row := c.system.db.QueryRowContext(ctx, "SELECT stock FROM seckill_vouchers WHERE voucher_id = ?", sale.VoucherID)
		if err := row.Scan(&left[i]); err != nil {
			return nil, fmt.Errorf("read the stock: %w", err)
		}
		left[i] *= 2
	}

	var buyers []int
	for i, p := range c.purchases {
		if c.ledger.entry(i).order == 0 && left[p.sale] > 0 {
			buyers = append(buyers, i)
			left[p.sale]--
		}
	}

	return buyers, nil
}
