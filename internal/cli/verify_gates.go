package cli

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/ops/reconcile"
	"seckill/internal/repo"
	"seckill/internal/sale/admission"
)

const (
	// differingRounds is for how many rounds of the reconciler a gate must differ from the database before verify reports
	// it. A server needs two of them to detect the difference and rebuild the gate.
	differingRounds = 4
	// gatePollInterval is the pause between two comparisons meanwhile.
	gatePollInterval = 500 * time.Millisecond
)

type gateChecker struct {
	rdb        redis.UniversalClient
	gate       app.Gate
	store      *repo.Store
	reconciler *reconcile.Reconciler
}

// checkGates compares the gate of every sale with the database. Admissions and cancellations in progress cause
// differences that disappear by themselves, so checkGates repeats the comparison; see settle.
//
// A remaining difference is a violation only if it affects buyers: a server in lane queue is running, which should have
// repaired it, and the sale has not ended. Without such a server the gate is not used, and the next server repairs it.
func checkGates(e *app.Env, rdb redis.UniversalClient, store *repo.Store, totals []domain.SaleTotals, r *report) error {
	gate := app.NewGate(rdb, e.Config.QueueBacklog, store.Voucher, e.Log)
	c := gateChecker{
		rdb:        rdb,
		gate:       gate,
		store:      store,
		reconciler: app.NewReconciler(e, gate, store, reconcile.Config{Queue: true, Now: time.Now}),
	}

	lag, err := app.ReadLag(e.Ctx, rdb)
	if err != nil {
		return err
	}

	r.gates = map[int64]reconcile.Comparison{}
	served, err := c.settle(e, totals, r.gates)
	if err != nil {
		return err
	}

	servers := "no server in lane queue is running"
	if served {
		servers = "a server in lane queue is running"
	}
	r.note("queue: %d orders waiting, %d dead letters, %s", lag.Unsettled, lag.Dead, servers)

	for _, b := range totals {
		d, loaded := r.gates[b.VoucherID]
		if !loaded || d.Matches() {
			continue
		}

		v, err := store.Voucher(e.Ctx, b.VoucherID)
		if err != nil {
			return err
		}

		ended := v.State(time.Now()) == domain.StateEnded
		if d.Blocks() && !ended && served {
			r.violation(b.VoucherID, "I5", d.String()+c.orders(e, b.VoucherID, r))
			continue
		}

		// Why the difference is none of the violations.
		reason := ""
		switch {
		case !d.Blocks():
		case ended:
			reason = ": the sale has ended"
		default:
			reason = ": the next server in lane queue rebuilds the gate"
		}
		r.note("note: voucher %d: %s%s", b.VoucherID, d, reason)
	}

	return nil
}

// orders lists the orders in which the gate differs from the database. If they cannot be determined, it notes why.
func (c *gateChecker) orders(e *app.Env, voucherID int64, r *report) string {
	reports, err := c.reconciler.ReconcileAll(e.Ctx, []int64{voucherID}, false)
	if err != nil {
		r.note("note: voucher %d: could not list the orders of the gate: %v", voucherID, err)
		return ""
	}

	var orders string
	for _, f := range reports[0].Findings {
		if f.Kind == reconcile.KindGateDiffers && len(f.Orders) > 0 {
			orders += orderList(f.Orders, f.Count)
		}
	}

	return orders
}

// settle stores the differences of the loaded gates in diffs. It compares gates that differ again until they match, no
// server in lane queue is running that would repair them, or differingRounds have passed. It reports whether such a
// server is running.
func (c *gateChecker) settle(e *app.Env, sales []domain.SaleTotals, diffs map[int64]reconcile.Comparison) (bool, error) {
	deadline := time.Now().Add(differingRounds * c.reconciler.Every())
	for {
		var differing []domain.SaleTotals
		for _, b := range sales {
			d, err := reconcile.Compare(e.Ctx, c.gate, c.store, b.VoucherID)
			switch {
			case errors.Is(err, domain.ErrGateCold), errors.Is(err, domain.ErrNotFound):
				// No gate, or no sale.
				delete(diffs, b.VoucherID)
				continue
			case err != nil:
				return false, err
			}

			diffs[b.VoucherID] = d
			if !d.Matches() {
				differing = append(differing, b)
			}
		}

		served, err := queueServerRuns(e.Ctx, c.rdb)
		if err != nil || len(differing) == 0 || !served || time.Now().After(deadline) {
			return served, err
		}

		sales = differing
		if err := loop.Sleep(e.Ctx, gatePollInterval); err != nil {
			return served, err
		}
	}
}

// queueServerRuns reports whether a server in lane queue is running, which subscribes to the outcomes of its buyers.
// The idle time of the stream's consumers is no evidence: in Redis 6.2, 7.0 and the embedded Redis a read without a
// result does not reset it.
func queueServerRuns(ctx context.Context, rdb redis.UniversalClient) (bool, error) {
	// The masters of a cluster are queried concurrently.
	var subscribed atomic.Int64
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
