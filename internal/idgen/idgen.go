package idgen

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Epoch is where the seconds of an id begin: 2002-01-02T00:00:00Z, in Unix
	// seconds. The last second that fits is 2070-01-20T03:14:07Z.
	Epoch int64 = 1_009_929_600

	// MaxBlock is the most ids that one call of NextN returns.
	MaxBlock = 100_000

	sequenceBits = 32
	maxSequence  = 1<<sequenceBits - 1
	maxSeconds   = 1<<(63-sequenceBits) - 1

	// skipAhead is how far Skip moves a counter beyond a number that was taken.
	// The ids to get clear of are those of one second, so it must be more than
	// are made in a second: a Redis executes some 100,000 single commands in
	// that time, a database commits fewer orders than 200,000. And it must be
	// little of a day's 2^32 numbers: it is 1/4096 of them.
	skipAhead = 1 << 20

	// randomStarts is the part of a day's numbers in which a guarded counter
	// begins: half of them, so that as many are left at least.
	randomStarts = 1 << (sequenceBits - 1)

	// counterTTL keeps a counter for clocks that are late or go back over
	// midnight. It begins again with each use.
	counterTTL = 48 * time.Hour
)

var (
	// ErrExhausted says that a day's 2^32 numbers are used up. It passes at
	// midnight UTC.
	ErrExhausted = errors.New("the ids of this day are used up")
	// ErrClock says that the clock is before [Epoch], or so late that its
	// seconds do not fit into an id.
	ErrClock = errors.New("the clock is outside of the range of ids")
	// ErrInvalid says that an argument cannot be right: a block that is empty or
	// too big, or an id that this package cannot have made.
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

// Generator makes the ids of one name. It has no state but its Redis client
// and may be used by any number of goroutines; any number of generators, in any
// number of processes, may share a name.
type Generator struct {
	rdb     redis.UniversalClient
	name    string
	now     func() time.Time
	guarded bool
}

// Option changes a Generator while New makes it.
type Option func(*Generator)

// WithClock replaces time.Now.
func WithClock(now func() time.Time) Option {
	return func(g *Generator) { g.now = now }
}

// WithGuard makes ids unique even if Redis forgets its last numbers, or all of
// them, within the second: for callers who publish an id before a primary key
// has accepted it. A counter that is missing begins at a random number, and one
// that another run of Redis has counted goes on after a gap. It costs a script
// instead of an INCRBY. All generators of a name must have it, or none.
func WithGuard() Option {
	return func(g *Generator) { g.guarded = true }
}

// New returns a generator of ids that are unique among those of the same name.
// It does not talk to Redis.
func New(rdb redis.UniversalClient, name string, opts ...Option) (*Generator, error) {
	g := &Generator{rdb: rdb, name: name, now: time.Now}
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

// Next returns a fresh id, in one round trip. Its errors are ErrExhausted,
// ErrClock, and whatever Redis or ctx say, wrapped; after each of them it may
// be called again.
func (g *Generator) Next(ctx context.Context) (int64, error) {
	return g.block(ctx, 1)
}

// NextN returns n fresh ids in ascending order, in one round trip; n is 1 to
// MaxBlock, or else the error is ErrInvalid. All carry the second of the call.
// The other errors are those of Next.
func (g *Generator) NextN(ctx context.Context, n int) ([]int64, error) {
	if n < 1 || n > MaxBlock {
		return nil, fmt.Errorf("idgen: %w: a block of %d ids, not 1 to %d", ErrInvalid, n, MaxBlock)
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

// block takes n numbers and returns the first id of them.
func (g *Generator) block(ctx context.Context, n int64) (int64, error) {
	now := g.now()
	seconds := now.Unix() - Epoch
	if seconds < 0 || seconds > maxSeconds {
		return 0, fmt.Errorf("idgen: %w: it says %s", ErrClock, now.UTC().Format(time.RFC3339))
	}
	key := g.key(now)
	take := g.take
	if g.guarded {
		take = g.takeGuarded
	}
	last, err := take(ctx, key, n)
	if err != nil {
		return 0, fmt.Errorf("idgen: count %s: %w", key, err)
	}
	if last < n {
		return 0, fmt.Errorf("idgen: count %s: it stood at %d, which no id generator wrote", key, last-n)
	}
	if last > maxSequence {
		return 0, fmt.Errorf("idgen: count %s: %w", key, ErrExhausted)
	}
	return seconds<<sequenceBits | (last - n + 1), nil
}

// take takes n numbers from a counter and returns the last one.
func (g *Generator) take(ctx context.Context, key string, n int64) (last int64, err error) {
	var count *redis.IntCmd
	_, err = g.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		count = pipe.IncrBy(ctx, key, n)
		pipe.Expire(ctx, key, counterTTL)
		return nil
	})
	return count.Val(), err
}

// takeGuarded is take with the gaps of WithGuard.
func (g *Generator) takeGuarded(ctx context.Context, key string, n int64) (last int64, err error) {
	keys := []string{key, "{" + key + "}:run"} // of one cluster slot
	return guardedScript.Run(ctx, g.rdb, keys, n, int64(counterTTL/time.Second),
		rand.N(int64(randomStarts)), skipAhead+rand.N(int64(skipAhead))).Int64()
}

// Skip is for the caller whose fresh id turned out to be taken, which proves
// that the counter was lost. It moves the counter of that id's day ahead, past
// all that can have been handed out in the second of the id; the caller then
// asks for another id.
//
// It never moves a counter back, and where a thousand callers collide at once,
// the counter jumps once: each asks for a value near its own id, and the first
// jump is past them all. The error is ErrInvalid for an id that cannot have been
// made here, ErrExhausted if the day has no room for the jump (nothing changes
// then), or what Redis or ctx say, wrapped. Repeating it does no harm.
func (g *Generator) Skip(ctx context.Context, taken int64) error {
	sequence := taken & maxSequence
	if taken < 0 || sequence == 0 {
		return fmt.Errorf("idgen: %w: id %d", ErrInvalid, taken)
	}
	key, target := g.key(Time(taken)), sequence+skipAhead
	if target > maxSequence {
		return fmt.Errorf("idgen: skip from %d in %s: %w", sequence, key, ErrExhausted)
	}
	err := skipScript.Run(ctx, g.rdb, []string{key}, target, int64(counterTTL/time.Second)).Err()
	if err != nil {
		return fmt.Errorf("idgen: raise %s to %d: %w", key, target, err)
	}
	return nil
}

// key names the counter of a moment's UTC day.
func (g *Generator) key(t time.Time) string {
	return "icr:" + g.name + ":" + t.UTC().Format("2006:01:02")
}

// Time returns the second, in UTC, in which an id was made, by the clock of its
// maker.
func Time(id int64) time.Time {
	return time.Unix(Epoch+id>>sequenceBits, 0).UTC()
}
