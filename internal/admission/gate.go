package admission

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

// maxRows bounds one script call, during which Redis serves nobody else.
const maxRows = 500

// defaultBacklog is some seconds of work for the workers of a shard.
const defaultBacklog = 10_000

// Config is what a Gate needs.
type Config struct {
	// Redis must not retry commands by itself (MaxRetries -1) and should let deadlines end a command
	// (ContextTimeoutEnabled).
	Redis redis.UniversalClient
	// Instance names this process's channel of outcomes, in one line. No other process may have the same.
	Instance string
	// MaxBacklog is how many users with unsettled admissions a shard may have; who comes then is refused with
	// ErrOverloaded. Counting users costs nothing, and few have more than one. Default 10,000.
	MaxBacklog int
	Log        *slog.Logger // default: slog.Default()
}

// Gate admits buyers to the queue. It is safe for concurrent use, and any number of them, in any number of
// processes, share what is in Redis. Errors of Redis are wrapped service.ErrUnavailable.
type Gate struct {
	cfg Config

	mu      sync.Mutex
	waiting map[int64][]*Expectation // by order id
	loads   map[loadKey]*running
	desk    *desk

	working context.Context // of the loads and the desk; ends with Close
	stop    context.CancelFunc
	done    sync.WaitGroup // of their goroutines
	closing sync.Mutex     // guards closed, and done from growing afterwards
	closed  bool
}

// New makes a gate. It does not talk to Redis. The caller must Close it if it loads gates or reads tickets.
func New(cfg Config) *Gate {
	if cfg.MaxBacklog <= 0 {
		cfg.MaxBacklog = defaultBacklog
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	g := &Gate{cfg: cfg, waiting: map[int64][]*Expectation{}, loads: map[loadKey]*running{}}
	g.desk = &desk{gate: g}
	g.working, g.stop = context.WithCancel(context.Background())
	return g
}

// Close ends the loads and the reads of tickets that are under way and waits for them. Other processes, or the next one, begin them again.
func (g *Gate) Close() {
	g.stop()
	g.closing.Lock()
	g.closed = true
	g.closing.Unlock()
	g.done.Wait()
}

// spawn runs f in the background, unless the gate is closed.
func (g *Gate) spawn(f func()) bool {
	g.closing.Lock()
	defer g.closing.Unlock()
	if !g.closed {
		g.done.Go(f)
	}
	return !g.closed
}

// Instance is the name under which buyers of this process hear of their outcome: what Admission.ReplyTo must be.
func (g *Gate) Instance() string { return g.cfg.Instance }

//go:embed common.lua
var commonSource string

// script puts what the scripts share before one of them.
func script(source string) *redis.Script { return redis.NewScript(commonSource + source) }

// unavailable wraps an error of Redis.
func unavailable(err error, format string, args ...any) error {
	return fmt.Errorf("%w: gate: %s: %w", service.ErrUnavailable, fmt.Sprintf(format, args...), err)
}

// run executes a script on the keys of a voucher.
func (g *Gate) run(ctx context.Context, s *redis.Script, keys []string, args ...any) *redis.Cmd {
	return s.Run(ctx, g.cfg.Redis, keys, args...)
}
