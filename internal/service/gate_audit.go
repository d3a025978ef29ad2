package service

import (
	"context"
	"log/slog"
	"time"
)

const (
	// auditEvery is how often the gates that this process uses are compared with the database. A difference must be
	// seen twice, so a unit that the gate forgot to give back is on sale again after 10 to 15 s.
	auditEvery = 5 * time.Second
	// auditFor is how long after its last use a gate is looked at.
	auditFor = 10 * time.Minute
)

// SaleLevel is what the database says about a voucher at one moment, for the audit of its gate.
type SaleLevel struct {
	Stock  int64 // units left
	Limit  int   // active orders that a user may hold
	Active int64 // active orders
	Sum    int64 // of their ids modulo LevelDigits
}

// drift is a difference between gate and database.
type drift struct {
	version, stock, held, sum int64 // the gate's version, and what it has too much
}

// Audit compares the gates with the database until ctx ends, and has those rebuilt that are off and stay off: after a
// release that Redis did not hear, orders of another lane, or keys that somebody deleted. Nothing is lost by it: the
// gate is cold for the time of one load.
func (l *QueueLane) Audit(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(auditEvery)
	defer tick.Stop()
	seen := map[int64]drift{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			seen = l.audit(ctx, log, seen)
		}
	}
}

// audit looks at every gate once. seen are the differences of the last time; it returns those of this time.
func (l *QueueLane) audit(ctx context.Context, log *slog.Logger, seen map[int64]drift) map[int64]drift {
	now := map[int64]drift{}
	for _, v := range l.inUse() {
		d, off := l.drift(ctx, v)
		if !off {
			continue
		}
		if seen[v] != d {
			now[v] = d
			continue
		}
		log.Warn("the gate differs from the database and is rebuilt",
			"voucher", v, "stock_off_by", d.stock, "orders_off_by", d.held, "other_orders", d.sum != 0)
		if err := l.rebuild(ctx, v); err != nil && ctx.Err() == nil {
			log.Warn("cannot rebuild the gate", "voucher", v, "err", err)
		}
	}
	return now
}

func (l *QueueLane) rebuild(ctx context.Context, voucherID int64) error {
	ctx, cancel := context.WithTimeout(ctx, holdersTimeout)
	defer cancel()
	if err := l.gate.Unload(ctx, voucherID); err != nil {
		return err
	}
	return l.gate.Load(ctx, voucherID, l.store.GateState)
}

// inUse returns the vouchers whose gates are worth a look, and forgets the others.
func (l *QueueLane) inUse() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []int64
	for id, at := range l.used {
		if time.Since(at) > auditFor {
			delete(l.used, id)
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

// drift compares one gate with the database. It says nothing about a gate that changes meanwhile, is cold, or has
// admissions under way: those may be in the database already or not yet.
func (l *QueueLane) drift(ctx context.Context, voucherID int64) (drift, bool) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	before, err := l.gate.Level(ctx, voucherID)
	if err != nil || before.Queued > 0 && before.Backlog > 0 {
		return drift{}, false
	}
	sale, err := l.store.SaleLevel(ctx, voucherID)
	if err != nil {
		return drift{}, false
	}
	after, err := l.gate.Level(ctx, voucherID)
	if err != nil || after.Version != before.Version {
		return drift{}, false
	}
	d := drift{
		version: after.Version, stock: after.Stock - sale.Stock, held: after.Held - sale.Active, sum: after.Sum - sale.Sum,
	}
	return d, d.stock != 0 || d.held != 0 || d.sum != 0 || after.Queued > 0
}
