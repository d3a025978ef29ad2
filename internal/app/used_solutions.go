package app

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

// usedSolutions remembers in Redis which solutions of challenges are used up. If Redis loses its data, a solution can
// be repeated until it expires, by its user and for its sale only.
type usedSolutions struct{ rdb redis.UniversalClient }

// usedSolution is the prefix of the keys.
const usedSolution = "seckill:solution:"

// UseUp implements entry.UsedSolutions.
func (u usedSolutions) UseUp(ctx context.Context, id string, keep time.Duration) (bool, error) {
	err := u.rdb.SetArgs(ctx, usedSolution+id, 1, redis.SetArgs{Mode: "NX", TTL: keep}).Err()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, errors.Join(domain.ErrUnavailable, err)
	}
	return true, nil
}
