package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

// drift is the value of each counter of a gate minus what it should be.
type drift struct{ stock, held, sum, queued int64 }

// driftOf compares the counters of a gate with the database. Up to open of the gate's admissions may be orders in the
// database or not, so they explain a drift of up to their number; the sum and the queue are compared without them only.
func driftOf(g domain.GateLevel, sale SaleLevel, open int64) drift {
	d := drift{stock: outside(g.Stock-sale.Stock, -open, 0), held: outside(g.Held-sale.Active, 0, open)}
	if open == 0 {
		d.sum = g.Sum - sale.Sum
		d.queued = g.Queued
	}
	return d
}

func outside(n, lo, hi int64) int64 { return max(n-hi, 0) + min(n-lo, 0) }

// totalDrift returns the drift of units and orders together. An admission, a commit or a release changes neither side.
func totalDrift(g domain.GateLevel, sale SaleLevel) int64 {
	return g.Stock + g.Held - sale.Stock - sale.Active
}

func openAdmissions(g domain.GateLevel) int64 {
	if g.Backlog == 0 {
		// The stream is empty, so the queued admissions will never be settled.
		return 0
	}
	return g.Queued
}

// Comparison is how the counters of a gate differ from the database, apart from admissions in progress.
type Comparison struct {
	Level domain.GateLevel
	// Whether the gate changed during the reads, so only the total was compared.
	Busy bool

	drift drift
	// Drift of units and orders together.
	total int64
}

// compare compares the counters of a gate with the database, which is cheap. Errors: domain.ErrGateCold, ErrGateBroken,
// ErrNotFound, ErrUnavailable.
func compare(ctx context.Context, gate Gate, store Store, voucherID int64) (Comparison, error) {
	before, err := gate.Level(ctx, voucherID)
	if err != nil {
		return Comparison{}, err
	}

	sale, err := store.SaleLevel(ctx, voucherID)
	if err != nil {
		return Comparison{}, err
	}

	after, err := gate.Level(ctx, voucherID)
	if err != nil {
		return Comparison{}, err
	}

	c := Comparison{
		Level: before,
		Busy:  after.Version != before.Version,
		total: totalDrift(before, sale),
	}
	if !c.Busy {
		c.drift = driftOf(before, sale, openAdmissions(before))
	}

	return c, nil
}

// comparePause is the pause between two comparisons of a gate that differs.
const comparePause = 500 * time.Millisecond

// CompareAll compares the gates of vouchers with the database. It compares those that differ again, until they match or a time
// is over: operations in progress cause differences that disappear by themselves. Gates that are not loaded are left out, and
// so are vouchers without a sale. Errors: domain.ErrGateBroken, ErrUnavailable.
func CompareAll(ctx context.Context, gate Gate, store Store, ids []int64, until time.Time) (map[int64]Comparison, error) {
	all := map[int64]Comparison{}
	for {
		var differing []int64
		for _, id := range ids {
			c, err := compare(ctx, gate, store, id)
			switch {
			case errors.Is(err, domain.ErrGateCold), errors.Is(err, domain.ErrNotFound):
				delete(all, id)
				continue
			case err != nil:
				return nil, fmt.Errorf("voucher %d: %w", id, err)
			}

			all[id] = c
			if !c.Matches() {
				differing = append(differing, id)
			}
		}

		if len(differing) == 0 || !time.Now().Before(until) {
			return all, nil
		}

		ids = differing
		if err := loop.Sleep(ctx, comparePause); err != nil {
			return nil, err
		}
	}
}

// Matches reports whether buyers find at the gate what the database has.
func (c Comparison) Matches() bool { return !c.Busy && c.String() == "" }

// Blocks reports whether a difference keeps units from buyers, which violates I5 if it lasts. Any other difference
// costs buyers nothing, because the database decides.
func (c Comparison) Blocks() bool {
	return c.drift.stock < 0 || c.drift.held > 0 || c.drift.held == 0 && c.drift.sum != 0
}

// String describes the differences, beginning with those that block buyers. It leaves out the count of queued orders,
// which nothing depends on.
func (c Comparison) String() string {
	if c.Busy {
		return "the gate changes too fast to be compared"
	}
	seen := c.drift
	seen.queued = 0
	return strings.Join(seen.words(), "; ")
}

func (d drift) words() []string {
	var words []string
	add := func(differs bool, text string) {
		if differs {
			words = append(words, text)
		}
	}

	add(d.stock < 0, "the gate is missing "+domain.Count(-d.stock, "free unit"))
	add(d.held > 0, "the gate counts "+domain.Count(d.held, "nonexistent order"))
	add(d.held == 0 && d.sum != 0, "the gate counts other orders than the active ones")
	add(d.stock > 0, "the gate offers "+domain.Count(d.stock, "nonexistent unit"))
	add(d.held < 0, "the gate is missing "+domain.Count(-d.held, "active order"))
	add(d.queued > 0, "the gate counts "+domain.Count(d.queued, "queued order")+" too many")
	add(d.queued < 0, "the gate counts "+domain.Count(-d.queued, "queued order")+" too few")

	return words
}

func (d drift) size() int64 {
	n := cmp.Or(d.stock, d.held, d.queued, d.sum)
	return max(n, -n)
}
