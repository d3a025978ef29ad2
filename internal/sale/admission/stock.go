package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"seckill/internal/domain"
)

var (
	releaseScript  = script("release")
	addStockScript = script("add_stock")
)

// Level is the state of a voucher's gate at one moment.
type Level = domain.GateLevel

// Level reads the counters of a voucher's gate: the sums of its segments, each of which is read in one transaction. The
// sums do not change by loans between the segments, even while the units are on their way. A gate is cold if one of its
// segments is, or if they are not of the same load.
// Errors: domain.ErrGateCold, ErrGateBroken (a key has the wrong type or is not a number), ErrUnavailable.
func (g *Gate) Level(ctx context.Context, voucherID int64) (Level, error) {
	keys, err := g.segments(ctx, voucherID)
	if err != nil {
		return Level{}, err
	}

	all, err := g.readSegments(ctx, voucherID, keys)
	if err != nil {
		return Level{}, err
	}
	if isCold(all) {
		return Level{}, domain.ErrGateCold
	}
	return levelOf(all), nil
}

func levelOf(all []segment) Level {
	var sum Level
	for i := range all {
		l := &all[i].level
		sum = Level{
			Stock:   sum.Stock + l.Stock + all[i].lent(),
			Held:    sum.Held + l.Held,
			Sum:     sum.Sum + l.Sum,
			Queued:  sum.Queued + l.Queued,
			Version: sum.Version + l.Version,
			Built:   sum.Built + l.Built,
			Users:   sum.Users + l.Users,
			Backlog: sum.Backlog + l.Backlog,
		}
	}

	return sum
}

// Unload makes the gate of a voucher cold: it admits no buyer until it is loaded. Use it for a broken gate, and Rebuild
// for any other. A running load starts over. Tickets and the stream stay. Unload is idempotent. Error:
// domain.ErrUnavailable.
func (g *Gate) Unload(ctx context.Context, voucherID int64) error {
	segments, err := g.segments(ctx, voucherID)
	if err != nil {
		return err
	}

	for _, k := range segments {
		err = g.cfg.Redis.Unlink(ctx, k.stock, k.buyers, k.meta, k.loading, k.notes, k.loans).Err()
		if err != nil {
			return unavailable(err, "unload voucher %d", voucherID)
		}
	}

	return nil
}

// Release returns the units of orders that have ended in the database, and removes the orders from their buyers. A unit
// returns to the segment of its buyer, which lends it to any other. Each order is released at most once, even if the
// call is repeated. On a cold gate Release does nothing: the next load reads from the database that they have ended.
// Error: domain.ErrUnavailable.
func (g *Gate) Release(ctx context.Context, voucherID int64, held ...domain.Holder) error {
	segments, err := g.segments(ctx, voucherID)
	if err != nil {
		return err
	}

	args := make([][]any, len(segments))
	for _, h := range held {
		at := home(h.UserID, len(segments))
		args[at] = append(args[at], h.UserID, h.OrderID)
	}

	for i, k := range segments {
		for some := range slices.Chunk(args[i], 2*maxRows) {
			if err := g.run(ctx, releaseScript, k.list(), some...).Err(); err != nil {
				return unavailable(err, "release %d orders of voucher %d", len(some)/2, voucherID)
			}
		}
	}

	return nil
}

// AddStock applies a change of the stock. The database commits an addition before it and a removal after it. A cold
// gate does not change, and a running load starts over. Errors: domain.ErrInvalidState (fewer than -delta units are
// left to admit, and nothing changed), ErrUnavailable.
//
// The units are added to the first segment or taken from it. It borrows the units that it does not have, and the others
// borrow those that they need.
//
// AddStock is not idempotent. After domain.ErrUnavailable the change may or may not have been applied. If a load begins
// and reads the database between the two steps of a change, an addition is applied twice and a removal is lost. The
// gate is then off by delta until Rebuild. This breaks no guarantee, and the audit detects it.
func (g *Gate) AddStock(ctx context.Context, voucherID, delta int64) error {
	segments, err := g.segments(ctx, voucherID)
	if err != nil {
		return err
	}

	for {
		answer, err := g.run(ctx, addStockScript, segments[0].list(), delta).Text()
		if err != nil {
			return unavailable(err, "add %d to voucher %d", delta, voucherID)
		}
		if answer != "short" {
			return nil
		}

		more, err := g.gather(ctx, voucherID, segments, -delta)
		switch {
		case errors.Is(err, domain.ErrGateCold):
			// It is the same as with a cold gate of one segment.
			return nil
		case err != nil:
			return err
		case !more:
			return fmt.Errorf("%w: the gate of voucher %d has fewer than %d units left",
				domain.ErrInvalidState, voucherID, -delta)
		}
	}
}

// gather makes the first segment borrow from the others until it has the units. It returns false if all segments
// together do not have them.
func (g *Gate) gather(ctx context.Context, voucherID int64, segments []gateKeys, units int64) (bool, error) {
	level, err := g.Level(ctx, voucherID)
	if err != nil || level.Stock < units {
		return false, err
	}

	first, err := g.readSegment(ctx, voucherID, segments[0])
	if err != nil || first.level.Stock >= units {
		return true, err
	}

	return g.lend(ctx, voucherID, segments, map[Shard]int64{segments[0].shard: units - first.level.Stock})
}
