package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission"
	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/reconcile"
	"seckill/internal/repo"
)

const (
	// gateDiffersFor is how long a gate must differ from the database before verify reports it. It is longer than a
	// server takes to detect the difference twice and rebuild the gate.
	gateDiffersFor = 20 * time.Second
	// gatePollInterval is the pause between two comparisons meanwhile.
	gatePollInterval = 500 * time.Millisecond
	// maxGateReads bounds the attempts to read gate and database without a change of the gate in between.
	maxGateReads = 10
)

// gateDiff is the difference between the gate of a voucher and the database.
type gateDiff struct {
	level    domain.GateLevel
	blocking []string // differences that keep units from buyers; they violate I5 if they last
	harmless []string // other differences: buyers lose nothing, because the database decides
	busy     bool     // the gate changed too fast to be compared
}

func (d gateDiff) matches() bool { return len(d.blocking) == 0 && len(d.harmless) == 0 && !d.busy }

// String describes the differences.
func (d gateDiff) String() string {
	if d.busy {
		return "the gate changes too fast to be compared"
	}
	return strings.Join(slices.Concat(d.blocking, d.harmless), "; ")
}

// gateChecker compares gates with the database.
type gateChecker struct {
	rdb   redis.UniversalClient
	gate  app.Gate
	store *repo.Store
}

// checkGates compares the gate of every sale with the database. Admissions and cancellations in progress cause
// differences that disappear by themselves, so checkGates repeats the comparison; see settle.
//
// A remaining difference is a violation only if it affects buyers: a server in lane queue is running, which should have
// repaired it, and the sale has not ended. Without such a server the gate is not used, and the next server repairs it.
func checkGates(e *app.Env, rdb redis.UniversalClient, store *repo.Store, totals []domain.SaleTotals, r *report) error {
	c := gateChecker{rdb: rdb, gate: app.NewGate(rdb, e.Config.QueueBacklog, e.Log), store: store}
	lag, err := app.ReadLag(e.Ctx, rdb)
	if err != nil {
		return err
	}
	r.gates = map[int64]gateDiff{}
	served, err := c.settle(e, totals, r.gates)
	if err != nil {
		return err
	}
	r.note("queue: %d orders waiting, %d dead letters, %s", lag.Unsettled, lag.Dead,
		map[bool]string{true: "a server in lane queue is running", false: "no server in lane queue is running"}[served])
	for _, b := range totals {
		d, loaded := r.gates[b.VoucherID]
		if !loaded || d.matches() {
			continue
		}
		ended, err := c.ended(e.Ctx, b.VoucherID)
		if err != nil {
			return err
		}
		if len(d.blocking) > 0 && served && !ended {
			r.violation(b.VoucherID, "I5", d.String()+c.orders(e, b.VoucherID))
			continue
		}
		r.note("note: voucher %d: %s%s", b.VoucherID, d, toleratedBecause(d, ended, served))
	}
	return nil
}

// orders lists the orders that the gate counts although they hold no unit, or returns "" if they cannot be determined.
func (c *gateChecker) orders(e *app.Env, voucherID int64) string {
	reconciler := app.NewReconciler(e, c.gate, c.store, reconcile.Config{Queue: true, Now: time.Now})
	reports, err := reconciler.ReconcileAll(e.Ctx, []int64{voucherID}, false)
	if err != nil {
		return "" // the list is optional
	}
	var orders string
	for _, f := range reports[0].Findings {
		if f.Kind == reconcile.KindPhantom || f.Kind == reconcile.KindNotReleased {
			orders += fmt.Sprintf("; %s%s", f.Kind, orderList(f.Orders, f.Count))
		}
	}
	return orders
}

// toleratedBecause returns why blocking differences are not a violation, or "" if there are none.
func toleratedBecause(d gateDiff, ended, served bool) string {
	switch {
	case len(d.blocking) == 0:
		return ""
	case ended:
		return ": the sale has ended"
	case !served:
		return ": the next server in lane queue rebuilds the gate"
	}
	return ""
}

// settle stores the differences of the loaded gates in diffs. It compares gates that differ again until they match, no
// server in lane queue is running that would repair them, or gateDiffersFor has passed. It reports whether such a
// server is running.
func (c *gateChecker) settle(e *app.Env, sales []domain.SaleTotals, diffs map[int64]gateDiff) (served bool, err error) {
	deadline := time.Now().Add(cmp.Or(e.Tuning.GateDiffersFor, gateDiffersFor))
	for {
		var differing []domain.SaleTotals
		for _, b := range sales {
			d, err := c.compare(e.Ctx, b.VoucherID)
			switch {
			case errors.Is(err, domain.ErrGateCold), errors.Is(err, domain.ErrNotFound): // no gate, or no sale
				delete(diffs, b.VoucherID)
				continue
			case err != nil:
				return false, err
			}
			diffs[b.VoucherID] = d
			if !d.matches() {
				differing = append(differing, b)
			}
		}
		served, err = queueServerRuns(e.Ctx, c.rdb)
		if err != nil || len(differing) == 0 || !served || time.Now().After(deadline) {
			return served, err
		}
		sales = differing
		select {
		case <-e.Ctx.Done():
			return served, e.Ctx.Err()
		case <-time.After(gatePollInterval):
		}
	}
}

// compare compares one gate with the database. Errors: domain.ErrGateCold, ErrGateBroken, ErrNotFound, ErrUnavailable.
func (c *gateChecker) compare(ctx context.Context, voucherID int64) (gateDiff, error) {
	for range maxGateReads {
		before, err := c.gate.Level(ctx, voucherID)
		if err != nil {
			return gateDiff{}, err
		}
		sale, err := c.store.SaleLevel(ctx, voucherID)
		if err != nil {
			return gateDiff{}, err
		}
		after, err := c.gate.Level(ctx, voucherID)
		if err != nil {
			return gateDiff{}, err
		}
		if after.Version == before.Version {
			return compareGate(after, sale), nil
		}
	}
	return gateDiff{busy: true}, nil
}

// compareGate compares a gate with the units left and the active orders in the database. The gate includes queued
// admissions, of which an unknown part is committed already, so they explain a difference of up to their number.
func compareGate(g domain.GateLevel, sale reconcile.SaleLevel) gateDiff {
	d := gateDiff{level: g}
	queued := g.Queued
	if g.Backlog == 0 {
		queued = 0 // the stream is empty, so these admissions will never be settled
	}
	if n := sale.Stock - queued - g.Stock; n > 0 {
		d.blocking = append(d.blocking, fmt.Sprintf("the gate is missing %d free units", n))
	}
	if n := g.Held - sale.Active - queued; n > 0 {
		d.blocking = append(d.blocking, fmt.Sprintf("the gate counts %d orders that do not exist", n))
	}
	if g.Held == sale.Active && queued == 0 && g.Sum != sale.Sum {
		d.blocking = append(d.blocking, "the gate counts other orders than the active ones")
	}
	if n := g.Stock - sale.Stock; n > 0 {
		d.harmless = append(d.harmless, fmt.Sprintf("the gate offers %d units that do not exist", n))
	}
	if n := sale.Active - g.Held; n > 0 {
		d.harmless = append(d.harmless, fmt.Sprintf("the gate is missing %d active orders", n))
	}
	return d
}

// queueServerRuns reports whether a server in lane queue is running, which subscribes to the outcomes of its buyers.
// The idle time of the stream's consumers is no evidence: in Redis 6.2, 7.0 and the embedded Redis a read without a
// result does not reset it.
func queueServerRuns(ctx context.Context, rdb redis.UniversalClient) (bool, error) {
	var subscribed atomic.Int64 // the masters of a cluster are queried concurrently
	count := func(ctx context.Context, rdb redis.UniversalClient) error {
		channels, err := rdb.PubSubChannels(ctx, admission.OutcomeChannels).Result()
		subscribed.Add(int64(len(channels)))
		return err
	}
	var err error
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return count(ctx, node) })
	} else {
		err = count(ctx, rdb)
	}
	if err != nil {
		return false, fmt.Errorf("check for servers in lane queue: %w", err)
	}
	return subscribed.Load() > 0, nil
}

// ended reports whether the sale of the voucher has ended.
func (c *gateChecker) ended(ctx context.Context, voucherID int64) (bool, error) {
	v, err := c.store.Voucher(ctx, voucherID)
	if err != nil {
		return false, err
	}
	return v.State(time.Now()) == domain.StateEnded, nil
}
