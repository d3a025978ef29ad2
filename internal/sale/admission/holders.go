package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
	"seckill/internal/service"
)

// scanCount is the page size for hashes. A page blocks Redis while it is read.
const scanCount = 1000

var countBuyersScript = script("count_buyers")

// Holders implements service.HolderStore. It includes buyers with queued admissions. The result is not a snapshot. While
// the gate may lack admissions, because Redis has lost data, it returns ErrGateLacking.
func (g *Gate) Holders(ctx context.Context, voucherID int64, most int) ([]int64, error) {
	segments, err := g.segments(ctx, voucherID)
	if err != nil {
		return nil, err
	}

	count, built, err := g.countBuyers(ctx, voucherID, segments)
	if err != nil {
		return nil, err
	}
	if count > int64(most) {
		return nil, service.ErrTooMany
	}

	users := make([]int64, 0, count)
	for _, k := range segments {
		err = g.scan(ctx, k.buyers, func(user, _ string) {
			if user, err := strconv.ParseInt(user, 10, 64); err == nil {
				users = append(users, user)
			}
		})
		if err != nil {
			return nil, unavailable(err, "read the buyers of voucher %d", voucherID)
		}
	}

	// The list is complete only if it was read from one gate, and nothing was lost meanwhile.
	_, after, err := g.countBuyers(ctx, voucherID, segments)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(after, built) {
		return nil, fmt.Errorf("%w: gate: voucher %d was loaded while its buyers were read", domain.ErrUnavailable, voucherID)
	}

	return users, nil
}

// countBuyers returns the number of buyers, and when each segment was built. Errors: domain.ErrGateCold,
// ErrGateLacking, ErrUnavailable.
func (g *Gate) countBuyers(ctx context.Context, voucherID int64, segments []gateKeys) (int64, []int64, error) {
	count := int64(0)
	built := make([]int64, len(segments))
	for i, k := range segments {
		reply, err := g.run(ctx, countBuyersScript, k.list()).Int64Slice()
		switch {
		case errors.Is(err, redis.Nil):
			return 0, nil, domain.ErrGateCold
		case err != nil:
			return 0, nil, unavailable(err, "count the buyers of voucher %d", voucherID)
		case len(reply) == 0:
			return 0, nil, domain.ErrGateLacking
		}

		count += reply[0]
		built[i] = reply[1]
	}

	return count, built, nil
}
