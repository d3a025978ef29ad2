package admission

import (
	"context"
	_ "embed" // the scripts

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

// Settle ends the admissions of parcels after their transaction, with one script for each voucher: the entries leave
// the stream; the ticket of a committed order is dropped; an admission that failed gives back its unit and gets a
// ticket that says so; so does one that is dead, of which a dead letter remains; one that is to be tried again gets an
// entry of its own. Then the instances whose buyers wait are told. Repeating it does no harm, and is the thing to do
// after an error.
//
// The parcels of a voucher should have some hundred admissions together: Redis serves nobody else meanwhile.
func (g *Gate) Settle(ctx context.Context, done []service.Parcel) error {
	vouchers := make(map[int64][]service.Parcel, 1)
	for _, p := range done {
		id := p.Admissions[0].VoucherID
		vouchers[id] = append(vouchers[id], p)
	}
	for id, parcels := range vouchers {
		keys, args := settleArgs(id, parcels)
		if err := g.run(ctx, settleScript, keys, args...).Err(); err != nil {
			return unavailable(err, "settle %d entries of voucher %d", len(parcels), id)
		}
	}
	g.publish(ctx, done)
	return nil
}

// settleArgs passes numbers by reference: of so many, each would be an allocation.
func settleArgs(voucherID int64, parcels []service.Parcel) (keys []string, args []any) {
	rows := 0
	for i := range parcels {
		rows += len(parcels[i].Admissions)
	}
	k := keysOf(voucherID)
	keys, args = k.list(), make([]any, 0, 1+3*(len(parcels)+rows))
	args = append(args, voucherID)
	for i := range parcels {
		p := &parcels[i]
		args = append(args, &p.Entry, &p.Tries, len(p.Admissions))
		for n := range p.Admissions {
			a, end := &p.Admissions[n], p.Ends[n]
			args = append(args, &a.OrderID, &a.UserID)
			switch {
			case end.Again:
				args = append(args, "again", "", rowOf(a))
			case end.Dead != "":
				keys, args = append(keys, k.shard.failed(a.UserID)), append(args, "dead", end.Dead, rowOf(a))
			case end.Failed != "":
				keys, args = append(keys, k.shard.failed(a.UserID)), append(args, "failed", end.Failed, rowOf(a))
			default:
				args = append(args, "ok")
			}
		}
	}
	return keys, args
}

// Bury moves an entry that cannot be read to the dead letters, with its fields as they are. Of what it was the gate
// knows nothing that could be undone. Repeating it does no harm.
func (g *Gate) Bury(ctx context.Context, stream, entry, reason string, tries int64) error {
	s, err := shardOfStream(stream)
	if err != nil {
		return err
	}
	if err := g.run(ctx, buryScript, keysIn(s, 0).list(), entry, reason, tries).Err(); err != nil {
		return unavailable(err, "bury entry %s of %s", entry, stream)
	}
	return nil
}
