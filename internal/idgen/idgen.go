package idgen

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	sequenceBits = 32
	maxSequence  = 1<<sequenceBits - 1
	maxSeconds   = 1<<31 - 1 // ids stay positive int64

	// keyTTL keeps the counter of a day for a while, for clocks that go back over midnight.
	keyTTL = 48 * time.Hour
	// MaxBlock bounds NextN: a block is held in memory, and what is not used of it is lost.
	MaxBlock = 100_000
	// skipGap is more ids than all instances together can hand out in a second, which is how far back a lost
	// counter can repeat, and small enough that a day has room for 4096 losses.
	skipGap = 1 << 20
)

// epoch is 2002-01-02T00:00:00Z: 31 bits of seconds last until 2070.
const epoch = 1009929600

// ErrExhausted says that the day's sequence has passed 2^32 - 1. The next day begins with a new one.
var ErrExhausted = errors.New("the day's id sequence is exhausted")

// Epoch is where the seconds of an id count from.
func Epoch() time.Time { return time.Unix(epoch, 0).UTC() }

// Time returns the second in which the id was made.
func Time(id int64) time.Time { return time.Unix(id>>sequenceBits+epoch, 0).UTC() }

// Generator makes ids of one kind. It is safe for concurrent use and keeps nothing in memory: any number of
// processes may share a name.
type Generator struct {
	rdb  redis.UniversalClient
	name string
	now  func() time.Time
}

// Option changes a Generator.
type Option func(*Generator)

// WithClock replaces time.Now.
func WithClock(now func() time.Time) Option { return func(g *Generator) { g.now = now } }

// New makes a generator for a kind of thing, such as "order".
func New(rdb redis.UniversalClient, name string, opts ...Option) (*Generator, error) {
	if rdb == nil || name == "" {
		return nil, errors.New("idgen: a Redis client and a name are needed")
	}
	g := &Generator{rdb: rdb, name: name, now: time.Now}
	for _, o := range opts {
		o(g)
	}
	return g, nil
}

// Next returns one id. Errors: ErrExhausted, a clock that cannot be right, Redis.
func (g *Generator) Next(ctx context.Context) (int64, error) {
	second, last, err := g.reserve(ctx, 1)
	return second | last, err
}

// NextN returns n ids, which rise by one, for a single round trip. n is between 1 and MaxBlock.
func (g *Generator) NextN(ctx context.Context, n int) ([]int64, error) {
	if n < 1 || n > MaxBlock {
		return nil, fmt.Errorf("idgen: a block of %d ids, it must be between 1 and %d", n, MaxBlock)
	}
	second, last, err := g.reserve(ctx, n)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = second | (last - int64(n-1-i))
	}
	return ids, nil
}

// reserve advances the day's counter by n. It returns the shifted second and the last sequence of the block.
func (g *Generator) reserve(ctx context.Context, n int) (second, last int64, err error) {
	now := g.now().UTC()
	s := now.Unix() - epoch
	if s < 0 || s > maxSeconds {
		return 0, 0, fmt.Errorf("idgen: the clock says %s, ids last from 2002 to 2070", now.Format(time.RFC3339))
	}
	key := g.key(now)
	pipe := g.rdb.Pipeline()
	counter := pipe.IncrBy(ctx, key, int64(n))
	pipe.Expire(ctx, key, keyTTL)
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, 0, fmt.Errorf("idgen: advance %s: %w", key, err)
	}
	last = counter.Val()
	switch {
	case last > maxSequence:
		return 0, 0, fmt.Errorf("idgen: %s: %w", key, ErrExhausted)
	case last < int64(n):
		return 0, 0, fmt.Errorf("idgen: %s was at %d: somebody else writes this key", key, last-int64(n))
	}
	return s << sequenceBits, last, nil
}

// key is the counter of the day. The date is part of the contract: icr:order:2026:11:11.
func (g *Generator) key(now time.Time) string {
	return "icr:" + g.name + ":" + now.UTC().Format("2006:01:02")
}

//go:embed skip.lua
var skipSource string

var skipScript = redis.NewScript(skipSource)

// Skip moves the counter past everything that may have been handed out before it was lost. taken is an id that
// turned out to exist. The counter only rises, to at least taken's sequence + 2^20: a thousand callers that
// collided together move it once, not a thousand times.
func (g *Generator) Skip(ctx context.Context, taken int64) error {
	key := g.key(g.now())
	target := taken&maxSequence + skipGap
	if err := skipScript.Run(ctx, g.rdb, []string{key}, target, keyTTL.Milliseconds()).Err(); err != nil {
		return fmt.Errorf("idgen: skip on %s: %w", key, err)
	}
	return nil
}
