package admission

import (
	"context"
	_ "embed" // the scripts
	"slices"

	"seckill/internal/service"
)

var (
	//go:embed settle.lua
	settleSource string
	//go:embed bury.lua
	burySource string

	settleScript = script(settleSource)
	buryScript   = script(burySource)
)

// Settle ends admissions after their transaction, with one script for each voucher: the entry leaves the stream; the
// ticket of a committed order is dropped; one that failed gives back its unit and gets a ticket that says so. Then
// the instances whose buyers wait are told. Repeating it does no harm, and is the thing to do after an error.
func (g *Gate) Settle(ctx context.Context, done []service.Settled) error {
	vouchers := make(map[int64][]service.Settled)
	for _, s := range done {
		vouchers[s.Admission.VoucherID] = append(vouchers[s.Admission.VoucherID], s)
	}
	for id, all := range vouchers {
		for rows := range slices.Chunk(all, maxRows) {
			if err := g.settle(ctx, id, rows); err != nil {
				return err
			}
		}
	}
	g.publish(ctx, done)
	return nil
}

func (g *Gate) settle(ctx context.Context, voucherID int64, rows []service.Settled) error {
	k := keysOf(voucherID)
	keys := slices.Grow(k.list(), len(rows))
	args := make([]any, 0, 1+7*len(rows))
	args = append(args, voucherID)
	for _, s := range rows {
		a := s.Admission
		keys = append(keys, k.shard.tickets(a.UserID))
		args = append(args, s.Entry, a.OrderID, a.UserID, a.Amount, a.Limit, a.At.UnixMilli(), s.Failed)
	}
	if err := g.run(ctx, settleScript, keys, args...).Err(); err != nil {
		return unavailable(err, "settle %d admissions of voucher %d", len(rows), voucherID)
	}
	return nil
}

// Bury moves an entry that cannot be turned into an order to the dead letters, with its original fields. Its unit
// comes back, and its ticket says that it failed with "internal". Of an entry that could not be read, or that is in the
// stream of another shard than its voucher, the gate knows nothing that could be undone. Repeating it does no harm.
func (g *Gate) Bury(ctx context.Context, d service.Dead) error {
	s, err := shardOfStream(d.Stream)
	if err != nil {
		return err
	}
	args := []any{d.Entry, d.Reason, d.Tries}
	if d.Admission == nil || shardOf(d.Admission.VoucherID) != s {
		return g.bury(ctx, d, keysIn(s, 0).list(), args)
	}
	a := *d.Admission
	args = append(args, a.OrderID, a.UserID, a.VoucherID, a.Amount, a.Limit, a.At.UnixMilli())
	if err := g.bury(ctx, d, keysOf(a.VoucherID).list(s.tickets(a.UserID)), args); err != nil {
		return err
	}
	g.publish(ctx, []service.Settled{{Admission: a, Failed: service.ReasonInternal}})
	return nil
}

func (g *Gate) bury(ctx context.Context, d service.Dead, keys []string, args []any) error {
	if err := g.run(ctx, buryScript, keys, args...).Err(); err != nil {
		return unavailable(err, "bury entry %s of %s", d.Entry, d.Stream)
	}
	return nil
}
