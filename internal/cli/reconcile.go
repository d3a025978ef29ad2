package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/ops/reconcile"
	"seckill/internal/repo"
)

const (
	reconcilePause = 3 * time.Second // between two snapshots; longer than that of a request
	reconcilePage  = 50              // vouchers per snapshot
	tableOrders    = 3               // orders listed per finding
)

// reconcileCmd offers the reconciliation routes of the API to operators without an admin's token, for all sales.
type reconcileCmd struct {
	Apply   bool  `help:"Repair the gates, and compare again."`
	Voucher int64 `placeholder:"ID" help:"Compare only this voucher."`
}

// Run prints a row per finding.
func (r reconcileCmd) Run(e *app.Env) error {
	store, err := existingStore(e)
	if err != nil {
		return fmt.Errorf("could not check the database: %w", err)
	}
	defer store.Close()

	reconciler, done, err := r.connect(e, store)
	if err != nil {
		return fmt.Errorf("could not check Redis: %w", err)
	}
	defer done()

	ids := []int64{r.Voucher}
	if r.Voucher == 0 {
		if ids, err = allVouchers(e.Ctx, store); err != nil {
			return fmt.Errorf("could not check the database: %w", err)
		}
	}

	var reports []reconcile.Report
	run := func() error {
		for page := range slices.Chunk(ids, reconcilePage) {
			some, err := reconciler.ReconcileAll(e.Ctx, page, r.Apply)
			if err != nil {
				return err
			}
			reports = append(reports, some...)
		}

		return nil
	}

	if r.Apply {
		err = audited(e.Ctx, store, "reconcile --apply", r.target(), run)
	} else {
		err = run()
	}

	if err != nil {
		return fmt.Errorf("could not reconcile: %w", err)
	}

	return printReports(e.Out, reports)
}

func (r reconcileCmd) target() string {
	if r.Voucher == 0 {
		return ""
	}
	return decimal(r.Voucher)
}

// connect returns a reconciler for the Redis of the servers with this configuration, and a function that closes it. If
// that Redis is embedded and no server runs, only the database is checked.
func (r reconcileCmd) connect(e *app.Env, store *repo.Store) (*reconcile.Reconciler, func(), error) {
	cfg := reconcile.Config{Now: time.Now, Pause: reconcilePause}
	rdb, err := app.SharedRedis(e.Config)
	if err != nil {
		return nil, nil, err
	}

	if rdb == nil {
		fmt.Fprintln(e.Out, "Redis: the embedded server is not running and has no data")
		return app.NewReconciler(e, nil, store, cfg), func() {}, nil
	}

	g := app.NewGate(rdb, e.Config.QueueBacklog, store.Voucher, e.Log)
	served, err := queueServerRuns(e.Ctx, rdb)
	if err != nil {
		return nil, nil, errors.Join(err, rdb.Close())
	}

	cfg.Queue = served || e.Config.OrderLane == "queue"
	return app.NewReconciler(e, g, store, cfg), func() { g.Close(); _ = rdb.Close() }, nil
}

func allVouchers(ctx context.Context, store *repo.Store) ([]int64, error) {
	ids, _, err := store.Sales(ctx, time.Time{}, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	orphans, err := store.OrphanVouchers(ctx)
	return append(ids, orphans...), err
}

// existingStore opens the database, which the caller closes. It returns an error if the embedded database does not
// exist, which OpenStore would create.
func existingStore(e *app.Env) (*repo.Store, error) {
	if e.Config.Embedded() {
		if _, err := os.Stat(filepath.Join(e.Config.DataDir, app.DatabaseFile)); err != nil {
			return nil, err
		}
	}
	return app.OpenStore(e.Config)
}

func printReports(out io.Writer, reports []reconcile.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	left := 0
	repaired := 0
	busy := 0
	heading := "voucher\tfinding\tcount\toldest\tstate\tdetail\n"

	for _, r := range reports {
		left += r.Left()
		repaired += len(r.Findings) - r.Left()

		if r.Busy {
			busy++
		}

		for _, f := range r.Findings {
			fmt.Fprintf(w, "%s%d\t%s\t%d\t%s\t%s\t%s%s\n", heading, r.VoucherID, f.Kind, f.Count,
				age(f.Oldest, r.CheckedAt), state(f), f.Detail, orderList(f.Orders, f.Count))
			heading = ""
		}
	}

	if err := w.Flush(); err != nil {
		return err
	}

	if busy > 0 {
		fmt.Fprintf(out, "%s changing too fast to compare all counters\n", domain.Count(busy, "gate"))
	}

	fmt.Fprintf(out, "%s reconciled: %s repaired, %d left\n", domain.Count(len(reports), "sale"), domain.Count(repaired, "finding"), left)
	if left > 0 {
		return &exitError{ExitViolation, fmt.Errorf("unresolved: %s; docs/operations.md explains each", domain.Count(left, "finding"))}
	}

	return nil
}

func age(oldest *time.Time, now time.Time) string {
	if oldest == nil {
		return "-"
	}
	return now.Sub(*oldest).Truncate(time.Second).String()
}

func state(f reconcile.Finding) string {
	switch {
	case f.Repaired:
		return "repaired"
	case f.Repairable:
		return "--apply repairs it"
	}
	return "manual"
}

func orderList(orders []domain.Holder, count int64) string {
	if len(orders) == 0 {
		return ""
	}

	var words []string
	for _, h := range orders[:min(len(orders), tableOrders)] {
		words = append(words, fmt.Sprintf("order %d of user %d", h.OrderID, h.UserID))
	}

	if more := count - int64(len(words)); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}

	return ": " + strings.Join(words, ", ")
}
