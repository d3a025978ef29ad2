package cli

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/kit/redisconn"
	"seckill/internal/ops/reconcile"
	"seckill/internal/repo"
)

// differingRounds is for how many rounds of the reconciler of a server a gate must differ from the database before verify
// reports it. The server needs two of them to detect the difference and rebuild the gate.
const differingRounds = 4

// checkGates compares the gate of every sale with the database. A difference that lasts is a violation only if it affects
// buyers: a server in lane queue is running, which should have repaired it, and the sale has not ended. Without such a server
// the gate is not used, and the next server repairs it.
func checkGates(e *app.Env, store *repo.Store, totals []domain.SaleTotals, r *report) error {
	rdb, err := app.SharedRedis(e.Config)
	if err != nil {
		return err
	}
	if rdb == nil {
		r.note("Redis: the embedded server is not running and has no data")
		return nil
	}
	defer rdb.Close()

	gate := app.NewGate(rdb, e.Config.QueueBacklog, store.Voucher, e.Log)
	reconciler := app.NewReconciler(e, gate, store, reconcile.Config{Queue: true, Now: time.Now})

	lag, err := gate.Lag(e.Ctx)
	if err != nil {
		return err
	}

	served, err := queueServerRuns(e.Ctx, rdb)
	if err != nil {
		return err
	}

	ids := make([]int64, len(totals))
	for i, b := range totals {
		ids[i] = b.VoucherID
	}

	until := time.Now()
	servers := "no server in lane queue is running"
	if served {
		until = until.Add(differingRounds * reconciler.Every())
		servers = "a server in lane queue is running"
	}

	if r.gates, err = reconcile.CompareAll(e.Ctx, gate, store, ids, until); err != nil {
		return err
	}

	r.note("queue: %d orders waiting, %d dead letters, %s", lag.Unsettled, lag.DeadLetters, servers)

	for _, id := range ids {
		d, loaded := r.gates[id]
		if !loaded || d.Matches() {
			continue
		}

		v, err := store.Voucher(e.Ctx, id)
		if err != nil {
			return err
		}

		ended := v.State(time.Now()) == domain.StateEnded
		if d.Blocks() && !ended && served {
			r.violation(id, "I5", d.String()+ordersOfGate(e, reconciler, id, r))
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
		r.note("note: voucher %d: %s%s", id, d, reason)
	}

	return nil
}

func ordersOfGate(e *app.Env, reconciler *reconcile.Reconciler, voucherID int64, r *report) string {
	reports, err := reconciler.ReconcileAll(e.Ctx, []int64{voucherID}, false)
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

// queueServerRuns reports whether a server in lane queue is running, which subscribes to app.QueueChannel.
// The idle time of the stream's consumers is no evidence: in Redis 6.2, 7.0 and the embedded Redis a read without a
// result does not reset it.
func queueServerRuns(ctx context.Context, rdb redis.UniversalClient) (bool, error) {
	// The masters of a cluster are queried concurrently.
	channel := app.QueueChannel(rdb)
	var subscribed atomic.Int64
	err := redisconn.EachMaster(ctx, rdb, func(ctx context.Context, node redis.UniversalClient) error {
		subscribers, err := node.PubSubNumSub(ctx, channel).Result()
		subscribed.Add(subscribers[channel])
		return err
	})
	if err != nil && subscribed.Load() == 0 {
		return false, fmt.Errorf("check for servers in lane queue: %w", err)
	}

	return subscribed.Load() > 0, nil
}
