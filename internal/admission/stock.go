package admission

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

var (
	//go:embed release.lua
	releaseSource string
	//go:embed add_stock.lua
	addStockSource string

	releaseScript  = script(releaseSource)
	addStockScript = script(addStockSource)
)

// Level is what the gate of a voucher holds at one moment.
type Level = service.GateLevel

// Level reads the gate of a voucher. Errors: service.ErrGateCold, ErrGateBroken, ErrUnavailable.
func (g *Gate) Level(ctx context.Context, voucherID int64) (Level, error) {
	k := keysOf(voucherID)
	var stock *redis.StringCmd
	var meta *redis.SliceCmd
	var users, backlog *redis.IntCmd
	_, err := g.cfg.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		stock = p.Get(ctx, k.stock)
		meta = p.HMGet(ctx, k.meta, "held", "queued", "version", "sum", "line", "built")
		users = p.HLen(ctx, k.buyers)
		backlog = p.XLen(ctx, k.shard.stream())
		return nil
	})
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return Level{}, fmt.Errorf("%w: voucher %d: %w", service.ErrGateBroken, voucherID, err)
	case errors.Is(stock.Err(), redis.Nil):
		return Level{}, service.ErrGateCold
	}
	if err != nil {
		return Level{}, unavailable(err, "read the level of voucher %d", voucherID)
	}
	counters := struct {
		Held    int64 `redis:"held"`
		Queued  int64 `redis:"queued"`
		Version int64 `redis:"version"`
		Sum     int64 `redis:"sum"`
		Built   int64 `redis:"built"`
		Line    int64 `redis:"line"` // read to see that it is a number
	}{}
	if err := meta.Scan(&counters); err != nil {
		return Level{}, fmt.Errorf("%w: counters of voucher %d: %w", service.ErrGateBroken, voucherID, err)
	}
	units, err := stock.Int64()
	if err != nil {
		return Level{}, fmt.Errorf("%w: stock of voucher %d: %w", service.ErrGateBroken, voucherID, err)
	}
	return Level{
		Stock: units, Held: counters.Held, Sum: counters.Sum, Queued: counters.Queued, Version: counters.Version,
		Built: counters.Built, Users: users.Val(), Backlog: backlog.Val(),
	}, nil
}

// Unload makes the gate of a voucher cold: it admits nobody until it is loaded. It is for a gate that cannot be read; any
// other is repaired by Rebuild. A load that is under way begins again. Tickets and the stream stay. Repeating it does no
// harm.
func (g *Gate) Unload(ctx context.Context, voucherID int64) error {
	k := keysOf(voucherID)
	// One command, so that the parts never disagree.
	if err := g.cfg.Redis.Unlink(ctx, k.stock, k.buyers, k.meta, k.loading, k.notes).Err(); err != nil {
		return unavailable(err, "unload voucher %d", voucherID)
	}
	return nil
}

// Release gives back the units of orders of a voucher whose end is committed, and forgets their buyers. It does so once
// however often it is called, and nothing while the gate is cold: who loads it will see that they have ended.
func (g *Gate) Release(ctx context.Context, voucherID int64, held ...service.Holder) error {
	for some := range slices.Chunk(held, maxRows) {
		args := make([]any, 0, 2*len(some))
		for _, h := range some {
			args = append(args, h.UserID, h.OrderID)
		}
		if err := g.run(ctx, releaseScript, keysOf(voucherID).list(), args...).Err(); err != nil {
			return unavailable(err, "release %d orders of voucher %d", len(some), voucherID)
		}
	}
	return nil
}

// AddStock takes over a change of the stock that is committed in the database; delta may be negative. A cold gate
// needs nothing, and a load that is going on begins again. It is service.ErrInvalidState to take away more than
// there is to admit, and nothing changes.
//
// A change cannot be recognised as the same one. After service.ErrUnavailable it may have happened or not, and if
// a load began and ended between the commit and this call, it is counted twice. The gate is then off by delta, which
// costs no promise, until Rebuild; the audit sees it.
func (g *Gate) AddStock(ctx context.Context, voucherID, delta int64) error {
	answer, err := g.run(ctx, addStockScript, keysOf(voucherID).list(), delta).Text()
	if err != nil {
		return unavailable(err, "add %d to voucher %d", delta, voucherID)
	}
	if answer == "short" {
		return fmt.Errorf("%w: the gate of voucher %d has fewer than %d units left",
			service.ErrInvalidState, voucherID, -delta)
	}
	return nil
}
