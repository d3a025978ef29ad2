package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission"
	"seckill/internal/app"
	"seckill/internal/reconcile"
	"seckill/internal/repo"
	"seckill/internal/service"
)

const (
	// gateLasting is for how long a gate must differ from the database before verify believes it: longer than the
	// server takes to see it twice and rebuild it.
	gateLasting = 20 * time.Second
	// gateEvery is how often verify looks meanwhile.
	gateEvery = 500 * time.Millisecond
	// gateLooks is how often it tries to see gate and database at one moment before it takes the sale for busy.
	gateLooks = 10
)

// gateView is the gate of a voucher beside the database.
type gateView struct {
	level service.GateLevel
	wrong []string // what of I5 does not hold, if it lasts
	odd   []string // what else differs; it costs no buyer anything, since the database decides
	busy  bool     // it changed too fast to be compared
}

func (v gateView) fits() bool { return len(v.wrong) == 0 && len(v.odd) == 0 && !v.busy }

// String says what differs.
func (v gateView) String() string {
	if v.busy {
		return "the gate changes too fast to be compared"
	}
	return strings.Join(append(v.wrong, v.odd...), "; ")
}

// gateChecker compares gates with the database.
type gateChecker struct {
	rdb   redis.UniversalClient
	gate  app.Gate
	store *repo.Store
}

// checkGates compares the gate of every sale with the database. Differences are common while admissions and
// cancellations are under way, and heal by themselves: it looks again until they are gone, or until there is nothing
// left to wait for.
//
// What remains is a violation only if buyers meet it: while a server in the lane queue runs, which should have
// repaired it, and before the sale has ended. Without such a server nobody asks the gate, and the next one will repair
// it.
func checkGates(e *app.Env, rdb redis.UniversalClient, store *repo.Store, books []service.Books, r *report) error {
	c := gateChecker{rdb: rdb, gate: app.NewGate(rdb, e.Config.QueueBacklog, e.Log), store: store}
	lag, err := app.ReadLag(e.Ctx, rdb)
	if err != nil {
		return err
	}
	r.gates = map[int64]gateView{}
	served, err := c.settle(e, books, r.gates)
	if err != nil {
		return err
	}
	r.note("queue: %d orders wait, %d dead letters, %s", lag.Unsettled, lag.Dead,
		map[bool]string{true: "a server confirms", false: "no server in the lane queue runs"}[served])
	for _, b := range books {
		v, loaded := r.gates[b.VoucherID]
		if !loaded || v.fits() {
			continue
		}
		ended, err := c.ended(e.Ctx, b.VoucherID)
		if err != nil {
			return err
		}
		if len(v.wrong) > 0 && served && !ended {
			r.violation(b.VoucherID, "I5", v.String()+c.names(e, b.VoucherID))
			continue
		}
		r.note("note: voucher %d: %s%s", b.VoucherID, v, harmless(v, ended, served))
	}
	return nil
}

// names tells the orders that the gate holds and that hold no unit, if they can be told.
func (c *gateChecker) names(e *app.Env, voucherID int64) string {
	reconciler := app.NewReconciler(e, c.gate, c.store, reconcile.Config{Queue: true, Now: time.Now})
	reports, err := reconciler.ReconcileAll(e.Ctx, []int64{voucherID}, false)
	if err != nil {
		return "" // which orders it is about is a courtesy
	}
	var orders string
	for _, f := range reports[0].Findings {
		if f.Kind == reconcile.KindPhantom || f.Kind == reconcile.KindNotReleased {
			orders += fmt.Sprintf("; %s%s", f.Kind, orderList(f.Orders, f.Count))
		}
	}
	return orders
}

// harmless says why a difference is no violation.
func harmless(v gateView, ended, served bool) string {
	switch {
	case len(v.wrong) == 0:
		return ""
	case ended:
		return ": the sale has ended"
	case !served:
		return ": the next server in the lane queue will rebuild the gate"
	}
	return ""
}

// settle fills views with the gates that are loaded, and returns when all of them fit, when nobody is there who would
// repair them, or after gateLasting. It says whether a server in the lane queue runs.
func (c *gateChecker) settle(e *app.Env, books []service.Books, views map[int64]gateView) (served bool, err error) {
	lasting := gateLasting
	if e.Tuning.GateDiffersFor > 0 {
		lasting = e.Tuning.GateDiffersFor
	}
	deadline := time.Now().Add(lasting)
	for look := books; ; {
		var again []service.Books
		for _, b := range look {
			v, err := c.view(e.Ctx, b.VoucherID)
			switch {
			case errors.Is(err, service.ErrGateCold), errors.Is(err, service.ErrNotFound): // no gate, or no sale
				delete(views, b.VoucherID)
				continue
			case err != nil:
				return false, err
			}
			views[b.VoucherID] = v
			if !v.fits() {
				again = append(again, b)
			}
		}
		served, err = c.served(e.Ctx)
		if err != nil || len(again) == 0 || !served || time.Now().After(deadline) {
			return served, err
		}
		look = again
		select {
		case <-e.Ctx.Done():
			return served, e.Ctx.Err()
		case <-time.After(gateEvery):
		}
	}
}

// view compares one gate. Errors: service.ErrGateCold, ErrNotFound, ErrUnavailable.
func (c *gateChecker) view(ctx context.Context, voucherID int64) (gateView, error) {
	for range gateLooks {
		before, err := c.gate.Level(ctx, voucherID)
		if err != nil {
			return gateView{}, err
		}
		sale, err := c.store.SaleLevel(ctx, voucherID)
		if err != nil {
			return gateView{}, err
		}
		after, err := c.gate.Level(ctx, voucherID)
		if err != nil {
			return gateView{}, err
		}
		if after.Version == before.Version {
			return compareGate(after, sale), nil
		}
	}
	return gateView{busy: true}, nil
}

// compareGate holds a gate against the units left and the active orders of the database. The gate has counted queued
// admissions, of which nobody knows here how many are committed: they explain a difference of up to as many.
func compareGate(g service.GateLevel, sale reconcile.SaleLevel) gateView {
	v := gateView{level: g}
	queued := g.Queued
	if g.Backlog == 0 {
		queued = 0 // what is counted as queued and is in no stream will never be settled
	}
	if n := sale.Stock - queued - g.Stock; n > 0 {
		v.wrong = append(v.wrong, fmt.Sprintf("%d units that nobody holds are not offered by the gate", n))
	}
	if n := g.Held - sale.Active - queued; n > 0 {
		v.wrong = append(v.wrong, fmt.Sprintf("the gate counts %d orders that do not exist", n))
	}
	if g.Held == sale.Active && queued == 0 && g.Sum != sale.Sum {
		v.wrong = append(v.wrong, "the gate counts other orders than there are")
	}
	if n := g.Stock - sale.Stock; n > 0 {
		v.odd = append(v.odd, fmt.Sprintf("the gate offers %d units that are not there", n))
	}
	if n := sale.Active - g.Held; n > 0 {
		v.odd = append(v.odd, fmt.Sprintf("the gate does not know %d orders", n))
	}
	return v
}

// served says whether a server in the lane queue runs: it listens for the outcomes of its buyers. How long a worker
// was silent says nothing, since Redis 6.2, 7.0 and the embedded one do not count reads that find nothing.
func (c *gateChecker) served(ctx context.Context) (bool, error) {
	var listeners atomic.Int64 // the masters of a cluster are asked at the same time
	ask := func(ctx context.Context, rdb redis.UniversalClient) error {
		channels, err := rdb.PubSubChannels(ctx, admission.OutcomeChannels).Result()
		listeners.Add(int64(len(channels)))
		return err
	}
	var err error
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return ask(ctx, node) })
	} else {
		err = ask(ctx, c.rdb)
	}
	if err != nil {
		return false, fmt.Errorf("look for servers in the lane queue: %w", err)
	}
	return listeners.Load() > 0, nil
}

// ended says whether nobody can buy the voucher any more.
func (c *gateChecker) ended(ctx context.Context, voucherID int64) (bool, error) {
	v, err := c.store.Voucher(ctx, voucherID)
	if err != nil {
		return false, err
	}
	return v.State(time.Now()) == service.StateEnded, nil
}
