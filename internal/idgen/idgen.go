package idgen

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Epoch is the start of the seconds in an id: 2002-01-02T00:00:00Z, in Unix seconds. The last second that fits is
	// 2070-01-20T03:14:07Z.
	Epoch int64 = 1_009_929_600

	// MaxBlock is the largest n of NextN.
	MaxBlock = 100_000

	sequenceBits = 32
	maxSequence  = 1<<sequenceBits - 1
	maxSeconds   = 1<<(63-sequenceBits) - 1

	// skipAhead is how far Skip moves a counter beyond a taken number. It must exceed the number of ids generated in
	// one second: Redis executes about 100,000 single commands in that time, and a database commits fewer than 200,000
	// orders. It must also be a small part of a day's 2^32 numbers: it is 1/4096 of them.
	skipAhead = 1 << 20

	// randomStarts is the range of the random first number of a guarded counter. It is half of a day's numbers, so at
	// least the other half is left.
	randomStarts = 1 << (sequenceBits - 1)

	// counterTTL is the time to live of a counter, renewed at each use. It keeps counters for clocks that are late or
	// go back over midnight.
	counterTTL = 48 * time.Hour
)

var (
	// ErrExhausted means that the 2^32 numbers of the day are used up. A new day begins at midnight UTC.
	ErrExhausted = errors.New("the ids of this day are used up")
	// ErrClock means that the clock is before [Epoch], or so far in the future that the seconds do not fit into an id.
	ErrClock = errors.New("the clock is outside the range of ids")
	// ErrInvalid means that an argument is invalid, for example the size of a block, or an id that this package cannot
	// have generated.
	ErrInvalid = errors.New("invalid argument")
)

//go:embed skip.lua
var skipSource string

//go:embed guarded.lua
var guardedSource string

var (
	skipScript    = redis.NewScript(skipSource)
	guardedScript = redis.NewScript(guardedSource)
)

// Generator generates the ids of one name. It has no state but its Redis client and the block of Reserve, and is safe
// for concurrent use. Any number of generators, in any number of processes, may share a name.
type Generator struct {
	rdb     redis.Cmdable
	name    string
	now     func() time.Time
	guarded bool

	// Whether ids come from the reserved block, until Reserve succeeds.
	failing  atomic.Bool
	mu       sync.Mutex
	reserved reserved
}

// Option configures a Generator.
type Option func(*Generator)

// WithClock replaces time.Now.
func WithClock(now func() time.Time) Option {
	return func(g *Generator) { g.now = now }
}

// WithGuard keeps ids unique even if Redis loses its last numbers, or all of them, within a second. It is for callers
// that publish an id before a primary key has accepted it. A missing counter begins at a random number, and a counter
// of another run of Redis continues after a gap. The cost is a script instead of an INCRBY. Either all generators of a
// name must have it, or none.
func WithGuard() Option {
	return func(g *Generator) { g.guarded = true }
}

// New returns a generator of ids that are unique among those of the same name. It does not connect to Redis. Error:
// ErrInvalid if rdb, name or the clock is missing.
func New(rdb redis.Cmdable, name string, opts ...Option) (*Generator, error) {
	g := &Generator{
		rdb:  rdb,
		name: name,
		now:  time.Now,
	}

	for _, opt := range opts {
		opt(g)
	}

	switch {
	case g.rdb == nil:
		return nil, fmt.Errorf("idgen: %w: no Redis client", ErrInvalid)
	case g.name == "":
		return nil, fmt.Errorf("idgen: %w: no name", ErrInvalid)
	case g.now == nil:
		return nil, fmt.Errorf("idgen: %w: no clock", ErrInvalid)
	}

	return g, nil
}

// Next returns a new id, in one round trip. Errors: ErrExhausted, ErrClock, or a wrapped error of Redis or ctx, unless
// Reserve has prepared for the last two. After each of them Next can be called again.
func (g *Generator) Next(ctx context.Context) (int64, error) {
	return g.block(ctx, 1)
}

// NextN returns n new ids in ascending order, in one round trip. All contain the same second. Errors: ErrInvalid
// if n is not 1 to MaxBlock, and those of Next.
func (g *Generator) NextN(ctx context.Context, n int) ([]int64, error) {
	if n < 1 || n > MaxBlock {
		return nil, fmt.Errorf("idgen: %w: block of %d ids, must be 1 to %d", ErrInvalid, n, MaxBlock)
	}

	first, err := g.block(ctx, int64(n))
	if err != nil {
		return nil, err
	}

	ids := make([]int64, n)
	for i := range ids {
		ids[i] = first + int64(i)
	}

	return ids, nil
}

func (g *Generator) block(ctx context.Context, n int64) (int64, error) {
	now := g.now()
	seconds := now.Unix() - Epoch
	if seconds < 0 || seconds > maxSeconds {
		return 0, fmt.Errorf("idgen: %w: %s", ErrClock, now.UTC().Format(time.RFC3339))
	}

	key := g.key(now)
	if g.failing.Load() {
		if reservedSeconds, first, ok := g.fromReserve(key, seconds, n); ok {
			return reservedSeconds<<sequenceBits | first, nil
		}
	}

	first, err := g.count(ctx, key, n)
	if err != nil {
		reservedSeconds, reserved, ok := g.fromReserve(key, seconds, n)
		if !ok {
			return 0, err
		}

		g.failing.Store(true)
		seconds = reservedSeconds
		first = reserved
	}

	return seconds<<sequenceBits | first, nil
}

func (g *Generator) count(ctx context.Context, key string, n int64) (int64, error) {
	take := g.take
	if g.guarded {
		take = g.takeGuarded
	}

	last, err := take(ctx, key, n)
	if err != nil {
		return 0, fmt.Errorf("idgen: count %s: %w", key, err)
	}
	if last < n {
		return 0, fmt.Errorf("idgen: count %s: invalid counter value %d", key, last-n)
	}
	if last > maxSequence {
		return 0, fmt.Errorf("idgen: count %s: %w", key, ErrExhausted)
	}

	return last - n + 1, nil
}

// take takes n numbers from a counter and returns the last of them.
func (g *Generator) take(ctx context.Context, key string, n int64) (int64, error) {
	var count *redis.IntCmd
	_, err := g.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		count = pipe.IncrBy(ctx, key, n)
		pipe.Expire(ctx, key, counterTTL)
		return nil
	})
	return count.Val(), err
}

// takeGuarded is take with the behaviour of WithGuard.
func (g *Generator) takeGuarded(ctx context.Context, key string, n int64) (int64, error) {
	// In the same cluster slot.
	keys := []string{key, "{" + key + "}:run"}
	return guardedScript.Run(ctx, g.rdb, keys, n, int64(counterTTL/time.Second),
		rand.N(int64(randomStarts)), skipAhead+rand.N(int64(skipAhead))).Int64()
}

// Skip moves the counter of the day of a taken id past all numbers that can have been used in the second of that id.
// The caller calls it when a new id is taken already, which proves that the counter was lost, and then generates
// another id.
//
// Skip never moves a counter back. If a thousand callers collide at once, the counter jumps once: each requests a value
// near its own id, and the first jump exceeds all of them. Errors: ErrInvalid if the id cannot come from this package,
// ErrExhausted if the day has too few numbers left for the jump (then nothing changes), or a wrapped error of Redis or
// ctx. Skip can be repeated.
func (g *Generator) Skip(ctx context.Context, taken int64) error {
	sequence := taken & maxSequence
	if taken < 0 || sequence == 0 {
		return fmt.Errorf("idgen: %w: id %d", ErrInvalid, taken)
	}

	key := g.key(Time(taken))
	target := sequence + skipAhead
	if target > maxSequence {
		return fmt.Errorf("idgen: skip from %d in %s: %w", sequence, key, ErrExhausted)
	}

	err := skipScript.Run(ctx, g.rdb, []string{key}, target, int64(counterTTL/time.Second)).Err()
	if err != nil {
		return fmt.Errorf("idgen: raise %s to %d: %w", key, target, err)
	}

	return nil
}

func (g *Generator) key(t time.Time) string {
	return "icr:" + g.name + ":" + t.UTC().Format("2006:01:02")
}

// Time returns the second, in UTC, in which an id was generated, by the clock of the generating instance.
func Time(id int64) time.Time {
	return time.Unix(Epoch+id>>sequenceBits, 0).UTC()
}

// First returns the smallest id of the second of t, or that of the nearest second that ids can have.
func First(t time.Time) int64 {
	return min(max(t.Unix()-Epoch, 0), math.MaxInt64>>sequenceBits) << sequenceBits
}
