package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/ops/reconcile"
	"seckill/internal/repo"
)

type verifyCmd struct{}

// Exit codes of verify, reconcile and doctor.
const (
	ExitViolation = 1 // the check found something
	ExitUnchecked = 2 // the check was not possible
)

// Run checks the invariants and prints a row per sale. Servers may be running.
func (verifyCmd) Run(e *app.Env) error {
	store, err := existingStore(e)
	if err != nil {
		return fmt.Errorf("could not check the database: %w", err)
	}
	defer store.Close()

	totals, err := store.SaleTotals(e.Ctx)
	if err != nil {
		return fmt.Errorf("could not check the database: %w", err)
	}

	r := report{broken: map[int64]map[string]bool{}}
	for _, b := range totals {
		for _, v := range r.violationsOf(e.Ctx, store, b) {
			r.violation(b.VoucherID, v.Invariant, v.Detail+orderList(v.Orders.Orders, v.Orders.Count))
		}
	}

	redisErr := checkGates(e, store, totals, &r)
	if redisErr != nil {
		redisErr = fmt.Errorf("could not check Redis: %w", redisErr)
	}
	if redisErr != nil && len(r.violations) > 0 {
		r.note("note: %v", redisErr)
	}

	if err := r.print(e.Out, totals); err != nil {
		return err
	}

	if len(r.violations) > 0 {
		return &exitError{ExitViolation, fmt.Errorf("%s:\n  %s", domain.Count(len(r.violations), "violation"), strings.Join(r.violations, "\n  "))}
	}
	if redisErr != nil {
		return redisErr
	}

	fmt.Fprintf(e.Out, "%s checked: all invariants hold\n", domain.Count(len(totals), "sale"))
	return nil
}

type report struct {
	violations []string
	// Invariants by voucher.
	broken map[int64]map[string]bool
	// The gates of vouchers with a loaded gate.
	gates map[int64]reconcile.Comparison
	// Printed below the table.
	notes []string
}

func (r *report) violation(voucherID int64, invariant, detail string) {
	if r.broken[voucherID] == nil {
		r.broken[voucherID] = map[string]bool{}
	}
	r.broken[voucherID][invariant] = true
	r.violations = append(r.violations, fmt.Sprintf("voucher %d: %s: %s", voucherID, invariant, detail))
}

func (r *report) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *report) print(out io.Writer, totals []domain.SaleTotals) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "voucher\tunits\tadded\tleft\tactive orders\tleft in gate\tqueued\tI1\tI2\tI3\tI5\t")

	for _, b := range totals {
		units := "-"
		queued := "-"
		if g, loaded := r.gates[b.VoucherID]; loaded {
			units = decimal(g.Level.Stock)
			queued = decimal(g.Level.Queued)
		}

		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%s\t%s\t", b.VoucherID, b.InitialStock, b.Additions, b.Stock, b.Active, units, queued)

		for _, invariant := range []string{"I1", "I2", "I3", "I5"} {
			verdict := "ok"
			if r.broken[b.VoucherID][invariant] {
				verdict = "BROKEN"
			}
			fmt.Fprint(w, verdict+"\t")
		}

		fmt.Fprintln(w)
	}

	if err := w.Flush(); err != nil {
		return err
	}

	for _, line := range r.notes {
		fmt.Fprintln(out, line)
	}

	return nil
}

// maxOrdersRead bounds the active orders that are read to find those that break an invariant.
const maxOrdersRead = 2_000_000

// violationsOf returns the broken invariants of a sale, with the orders that break them. If these cannot be read, it
// notes why.
func (r *report) violationsOf(ctx context.Context, store *repo.Store, totals domain.SaleTotals) []domain.Violation {
	found := totals.Check()
	if len(found) == 0 {
		return nil
	}

	facts, err := store.SaleFacts(ctx, totals.VoucherID, nil, maxOrdersRead, domain.OverdueSince{})
	if err != nil {
		r.note("note: voucher %d: could not read its orders: %v", totals.VoucherID, err)
		return found
	}

	if withOrders := facts.Check(); len(withOrders) >= len(found) {
		return withOrders
	}

	return found
}
