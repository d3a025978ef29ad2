package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

// A gate of several segments is several gates of one, each in a shard of its own and with a part of the stock. A user's
// orders are always in his home segment, so one script there still decides about one order per user. Segments lend each
// other free units; docs/architecture.md has the reasons (Decisions).
//
// A loan takes two scripts. The first counts the units out of the lender, in the total that it ever lent to the
// borrower. The second credits the borrower with the difference between that total and the one it knows. Totals only
// grow, so the second script may be lost, repeated or overtaken: the next one that brings a total to the borrower makes
// up for it. Both scripts name the epoch, which is one load of the whole gate. A load begins with new totals, and counts
// the units that are on their way as free.

var (
	lendScript   = script("lend")
	borrowScript = script("borrow")
)

// segment is the state of one segment at one moment. Different segments are read at different moments.
type segment struct {
	keys    gateKeys
	cold    bool
	loading bool // a load runs
	level   Level
	epoch   string
	// to has the totals lent to other segments in this epoch.
	to map[Shard]int64
	// from has the totals that other segments have lent to this one, as far as it received them.
	from map[Shard]int64
}

// readSegments reads segments concurrently. With domain.ErrGateBroken it returns those that could be read; the other
// error is domain.ErrUnavailable.
func (g *Gate) readSegments(ctx context.Context, voucherID int64, keys []gateKeys) ([]segment, error) {
	all := make([]segment, len(keys))
	broken := make([]error, len(keys))

	readers, readCtx := errgroup.WithContext(ctx)
	for i, k := range keys {
		readers.Go(func() error {
			s, err := g.readSegment(readCtx, voucherID, k)
			all[i] = s
			if errors.Is(err, domain.ErrGateBroken) {
				broken[i] = err
				return nil
			}
			return err
		})
	}

	if err := readers.Wait(); err != nil {
		return nil, err
	}

	return all, errors.Join(broken...)
}

// readSegment reads a segment in one transaction. Errors: domain.ErrGateBroken, ErrUnavailable.
func (g *Gate) readSegment(ctx context.Context, voucherID int64, k gateKeys) (segment, error) {
	var stock *redis.StringCmd
	var meta *redis.SliceCmd
	var users, backlog, loads *redis.IntCmd
	var loans *redis.MapStringStringCmd
	_, err := g.cfg.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		stock = p.Get(ctx, k.stock)
		meta = p.HMGet(ctx, k.meta, "held", "queued", "version", "sum", "line", "built")
		users = p.HLen(ctx, k.buyers)
		backlog = p.XLen(ctx, k.shard.Stream())
		loads = p.Exists(ctx, k.loading)
		loans = p.HGetAll(ctx, k.loans)
		return nil
	})

	s := segment{keys: k, cold: errors.Is(stock.Err(), redis.Nil)}
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return s, fmt.Errorf("%w: voucher %d: %w", domain.ErrGateBroken, voucherID, err)
	case err != nil && !s.cold:
		return s, unavailable(err, "read the level of voucher %d", voucherID)
	}

	if !s.cold {
		// The last position of the queue is not used. It must be a number.
		line := struct {
			Last int64 `redis:"line"`
		}{}

		s.level = Level{Users: users.Val(), Backlog: backlog.Val()}
		s.level.Stock, err = stock.Int64()
		if err := errors.Join(err, meta.Scan(&s.level), meta.Scan(&line)); err != nil {
			return segment{keys: k}, fmt.Errorf("%w: counters of voucher %d: %w", domain.ErrGateBroken, voucherID, err)
		}
	}

	s.loading = loads.Val() > 0
	s.epoch = loans.Val()["epoch"]
	s.to = map[Shard]int64{}
	s.from = map[Shard]int64{}
	for field, text := range loans.Val() {
		direction, other, found := strings.Cut(field, ":")
		at, errShard := strconv.Atoi(other)
		units, errUnits := strconv.ParseInt(text, 10, 64)
		if !found || errShard != nil || errUnits != nil {
			// It is the epoch.
			continue
		}

		if direction == "to" {
			s.to[Shard(at)] = units
		} else {
			s.from[Shard(at)] = units
		}
	}

	return s, nil
}

// lent returns the units that the segment has lent less those that it has borrowed. Its stock plus this number changes
// with admissions and releases only.
func (s *segment) lent() int64 {
	var n int64
	for _, units := range s.to {
		n += units
	}
	for _, units := range s.from {
		n -= units
	}
	return n
}

// isCold reports whether the gate must be loaded before it is whole: a segment is cold, or several segments are not of one
// load with this number of segments.
func isCold(all []segment) bool {
	epoch := all[0].epoch
	return len(all) > 1 && !strings.HasPrefix(epoch, epochPrefix(len(all))) ||
		slices.ContainsFunc(all, func(s segment) bool { return s.cold || s.epoch != epoch })
}

// loan is what a segment has lent to another one in this epoch.
type loan struct{ lender, borrower *segment }

func (l loan) total() int64 { return l.lender.to[l.borrower.keys.shard] }

func (l loan) missing() int64 { return l.total() - l.borrower.from[l.lender.keys.shard] }

func (l loan) overpaid() bool { return l.lender.epoch == l.borrower.epoch && l.missing() < 0 }

// openLoans returns the loans of which lender and borrower have different totals. If there are none, the reads are a
// consistent cut: every loan is seen on both sides or on neither, as if all segments had been read at one moment.
func openLoans(lenders, borrowers []segment) []loan {
	var open []loan
	for i := range lenders {
		for j := range borrowers {
			l := loan{&lenders[i], &borrowers[j]}
			if l.missing() != 0 {
				open = append(open, l)
			}
		}
	}
	return open
}

// lend makes the segments in need borrow from the others. need has the units that each of them needs more than it has.
// It returns false if all segments together had no unit at one moment. Otherwise the caller tries again whatever needed
// the units, because other buyers may have taken them.
//
// A segment whose stock is negative, because more orders were in flight at a load than the database had units, borrows
// first. Otherwise a unit that returns to another segment would be offered although the gate as a whole has none, and
// again after each order that fails for it.
// Errors: domain.ErrGateCold, ErrUnavailable (also if ctx ends before a running load).
func (g *Gate) lend(ctx context.Context, voucherID int64, keys []gateKeys, need map[Shard]int64) (bool, error) {
	all, err := g.readSegments(ctx, voucherID, keys)
	if err != nil {
		return false, err
	}

	// There are no loans until a running load ends.
	if slices.ContainsFunc(all, func(s segment) bool { return s.loading }) {
		if err := loop.Sleep(ctx, loadPoll); err != nil {
			return false, unavailable(err, "voucher %d is being loaded", voucherID)
		}
		return true, nil
	}

	if isCold(all) {
		return false, domain.ErrGateCold
	}

	if open := openLoans(all, all); len(open) > 0 {
		return true, g.complete(ctx, voucherID, keys, all, open)
	}

	// free is the stock of all segments, before the loans below change their stock.
	var free int64
	for i := range all {
		free += all[i].level.Stock
	}

	for i := range all {
		if debt := -all[i].level.Stock; debt > 0 {
			if err := g.borrow(ctx, all, i, debt); err != nil {
				return false, err
			}
		}
	}

	if free <= 0 {
		return false, nil
	}

	for i := range all {
		if missing := need[all[i].keys.shard]; missing > 0 {
			if err := g.borrow(ctx, all, i, missing); err != nil {
				return false, err
			}
		}
	}

	return true, nil
}

// complete credits borrowers with the units that are on their way.
//
// A borrower may have received more than its lender has lent, because the lender's Redis has lost the loan, for instance in a
// failover. Such segments never have the same totals again, so the gate is unloaded. A loan that was made between the reads
// of the two segments looks the same in all, but not in a later read.
func (g *Gate) complete(ctx context.Context, voucherID int64, keys []gateKeys, all []segment, open []loan) error {
	if slices.ContainsFunc(open, loan.overpaid) {
		later, err := g.readSegments(ctx, voucherID, keys)
		if err != nil {
			return err
		}

		if slices.ContainsFunc(openLoans(later, all), loan.overpaid) {
			g.cfg.Log.ErrorContext(ctx, "gate: Redis has lost a loan, loading again", slog.Int64("voucher_id", voucherID))
			return cmp.Or(g.Unload(ctx, voucherID), domain.ErrGateCold)
		}
	}

	for _, l := range open {
		if l.missing() <= 0 {
			continue
		}
		if err := g.credit(ctx, l.borrower, l.lender, l.total()); err != nil {
			return err
		}
	}

	return nil
}

// borrow lends units to the borrower until it has those that are missing. A lender gives half of its units, or as many
// as are missing: a segment that is empty once needs more soon, and each loan costs two round trips. borrow updates the
// stock of the lenders in all.
func (g *Gate) borrow(ctx context.Context, all []segment, borrower int, missing int64) error {
	for missing > 0 {
		lender := borrower
		for i := range all {
			if i != borrower && (lender == borrower || all[i].level.Stock > all[lender].level.Stock) {
				lender = i
			}
		}

		from := &all[lender]
		to := &all[borrower]
		units := min(from.level.Stock, max(missing, (from.level.Stock+1)/2))
		if units <= 0 {
			return nil
		}

		total, err := g.run(ctx, lendScript, from.keys.list(from.keys.loans), from.epoch, int(to.keys.shard), units).Int64()
		from.level.Stock -= units
		missing -= units
		switch {
		case errors.Is(err, redis.Nil):
			// The segment was loaded meanwhile.
			return nil
		case err != nil:
			// The units may be on their way. The next read of the segments shows them.
			return unavailable(err, "lend units of a segment")
		}

		if err := g.credit(ctx, to, from, total); err != nil {
			return err
		}
	}

	return nil
}

func (g *Gate) credit(ctx context.Context, borrower, lender *segment, total int64) error {
	err := g.run(ctx, borrowScript, borrower.keys.list(borrower.keys.loans), lender.epoch, int(lender.keys.shard), total).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return unavailable(err, "credit a segment with a loan")
	}
	return nil
}

// reserveSegments is Reserve for a gate of several segments. Each buyer's home decides, all of them at the same time. A
// buyer is refused as sold out only if all segments together had no unit at one moment (lend).
func (g *Gate) reserveSegments(
	ctx context.Context, voucherID int64, segments []gateKeys, w domain.Window, as []domain.Admission,
) []error {
	results := make([]error, len(as))
	open := make([]int, len(as))
	for i := range open {
		open[i] = i
	}

	for {
		need := g.reserveHomes(ctx, voucherID, segments, w, as, open, results)
		open = slices.DeleteFunc(open, func(i int) bool { return as[i].OrderID == 0 || !isShortage(results[i]) })
		if len(open) == 0 {
			return results
		}

		again, err := g.lend(ctx, voucherID, segments, need)
		if err != nil {
			for _, i := range open {
				results[i] = err
			}
			return results
		}

		if !again {
			return results
		}
	}
}

func isShortage(err error) bool {
	return errors.Is(err, domain.ErrSoldOut) || errors.Is(err, domain.ErrGateLacking)
}

// reserveHomes lets the homes of the open buyers decide, and sets their results. It returns the number of buyers that
// each home refused as sold out.
func (g *Gate) reserveHomes(
	ctx context.Context, voucherID int64, segments []gateKeys, w domain.Window, as []domain.Admission, open []int, results []error,
) map[Shard]int64 {
	homes := make([][]int, len(segments))
	for _, i := range open {
		at := home(as[i].UserID, len(segments))
		homes[at] = append(homes[at], i)
	}

	var deciding sync.WaitGroup
	for at, buyers := range homes {
		if len(buyers) == 0 {
			continue
		}

		deciding.Go(func() {
			some := make([]domain.Admission, len(buyers))
			for n, i := range buyers {
				some[n] = as[i]
			}

			for n, err := range g.reserveSegment(ctx, voucherID, segments[at], w, some) {
				results[buyers[n]] = err
			}
		})
	}

	deciding.Wait()

	need := map[Shard]int64{}
	for _, i := range open {
		if isShortage(results[i]) {
			need[segments[home(as[i].UserID, len(segments))].shard]++
		}
	}

	return need
}
