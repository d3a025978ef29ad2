package admission

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

var (
	//go:embed lua/release.lua
	releaseSource string
	//go:embed lua/add_stock.lua
	addStockSource string

	releaseScript  = script(releaseSource)
	addStockScript = script(addStockSource)
)

// Level is the state of a voucher's gate at one moment.
type Level = domain.GateLevel

// Level reads the counters of a voucher's gate in one transaction. Errors: domain.ErrGateCold, ErrGateBroken (a key
// has the wrong type or is not a number), ErrUnavailable.
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
		return Level{}, fmt.Errorf("%w: voucher %d: %w", domain.ErrGateBroken, voucherID, err)
	case errors.Is(stock.Err(), redis.Nil):
		return Level{}, domain.ErrGateCold
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
		Line    int64 `redis:"line"` // unused; Scan fails if it is not a number
	}{}
	if err := meta.Scan(&counters); err != nil {
		return Level{}, fmt.Errorf("%w: counters of voucher %d: %w", domain.ErrGateBroken, voucherID, err)
	}
	units, err := stock.Int64()
	if err != nil {
		return Level{}, fmt.Errorf("%w: stock of voucher %d: %w", domain.ErrGateBroken, voucherID, err)
	}
	return Level{
		Stock: units, Held: counters.Held, Sum: counters.Sum, Queued: counters.Queued, Version: counters.Version,
		Built: counters.Built, Users: users.Val(), Backlog: backlog.Val(),
	}, nil
}

// Unload makes the gate of a voucher cold: it admits no buyer until it is loaded. Use it for a broken gate, and Rebuild
// for any other. A running load starts over. Tickets and the stream stay. Unload is idempotent. Error:
// domain.ErrUnavailable.
func (g *Gate) Unload(ctx context.Context, voucherID int64) error {
	k := keysOf(voucherID)
	// One command keeps the keys consistent with each other.
	if err := g.cfg.Redis.Unlink(ctx, k.stock, k.buyers, k.meta, k.loading, k.notes).Err(); err != nil {
		return unavailable(err, "unload voucher %d", voucherID)
	}
	return nil
}

// Release returns the units of orders that have ended in the database, and removes the orders from their buyers. Each
// order is released at most once, even if the call is repeated. On a cold gate Release does nothing: the next load
// reads from the database that they have ended. Error: domain.ErrUnavailable.
func (g *Gate) Release(ctx context.Context, voucherID int64, held ...domain.Holder) error {
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

// AddStock applies a change of the stock. The database commits an addition before it and a removal after it. A cold
// gate does not change, and a running load starts over. Errors: domain.ErrInvalidState (fewer than -delta units are
// left to admit, and nothing changed), ErrUnavailable.
//
// AddStock is not idempotent. After domain.ErrUnavailable the change may or may not have been applied. If a load begins
// and reads the database between the two steps of a change, an addition is applied twice and a removal is lost. The
// gate is then off by delta until Rebuild. This breaks no guarantee, and the audit detects it.
func (g *Gate) AddStock(ctx context.Context, voucherID, delta int64) error {
	answer, err := g.run(ctx, addStockScript, keysOf(voucherID).list(), delta).Text()
	if err != nil {
		return unavailable(err, "add %d to voucher %d", delta, voucherID)
	}
	if answer == "short" {
		return fmt.Errorf("%w: the gate of voucher %d has fewer than %d units left",
			domain.ErrInvalidState, voucherID, -delta)
	}
	return nil
}
