package idgen

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// reserveSize is the size of a reserved block, and so the number of ids that a generator can issue in a second without
// Redis. It exceeds the orders that a server commits in a second. A day's numbers suffice for 65,536 blocks.
const reserveSize = 1 << 16

// reserved is a block of a day's numbers that only this generator uses. An id differs from those of the counter and of
// other generators in its number, and from the other ids of the block in its number or second.
type reserved struct {
	// The counter of the day.
	key   string
	first int64
	// The seconds of the last id; never decreases.
	seconds int64
	// Numbers used in that second.
	used int64
}

// Reserve takes a block of numbers of the current day, unless the generator has one. While Redis fails, Next and NextN take
// the numbers of the block instead, until the day ends. Reserve ends that when Redis answers, so the caller repeats it every
// second or so. It replaces a block that the counter has not reached: the counter was lost and may return the same numbers
// again. Errors: those of NextN.
func (g *Generator) Reserve(ctx context.Context) error {
	key := g.key(g.now())
	count, err := g.rdb.Get(ctx, key).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("idgen: read %s: %w", key, err)
	}

	g.mu.Lock()
	block := g.reserved
	g.mu.Unlock()

	if block.key != key || count < block.first+reserveSize-1 {
		first, err := g.count(ctx, key, reserveSize)
		if err != nil {
			return err
		}

		g.mu.Lock()
		g.reserved = reserved{key: key, first: first}
		g.mu.Unlock()
	}

	g.failing.Store(false)
	return nil
}

// fromReserve returns the first of n numbers of a reserved block, and the seconds of their ids: if the clock went back,
// those of the last id. ok is false without a block of the day, or if too few of its numbers are left in this second.
func (g *Generator) fromReserve(key string, seconds, n int64) (idSeconds, first int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()

	b := &g.reserved
	if b.key != key {
		return 0, 0, false
	}

	if seconds > b.seconds {
		b.seconds = seconds
		b.used = 0
	}

	if n > reserveSize-b.used {
		return 0, 0, false
	}

	first = b.first + b.used
	b.used += n
	return b.seconds, first, true
}
