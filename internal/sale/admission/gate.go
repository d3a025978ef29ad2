package admission

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"seckill/internal/domain"
	"seckill/internal/kit/batch"
)

// maxRows bounds the rows of one script call, which blocks Redis while it runs.
const maxRows = 500

// defaultBacklog takes the workers of a shard some seconds.
const defaultBacklog = 10_000

// Config configures a Gate.
type Config struct {
	// Redis must not retry commands by itself (MaxRetries -1), and should end commands at the deadline of their context
	// (ContextTimeoutEnabled).
	Redis redis.Cmdable
	// MaxBacklog is the most users of a shard with unsettled admissions. Further buyers are refused with ErrOverloaded.
	// It counts users because their number is one cheap command; few users have more than one admission. Default
	// 10,000.
	MaxBacklog int
	// Segments returns the number of segments (1 to 16) of a voucher's gate; nil means one for every voucher. Every
	// purchase calls it, so it should answer from memory. Errors: those of package domain.
	Segments func(ctx context.Context, voucherID int64) (int, error)
	Log      *slog.Logger // default: slog.Default()
}

// Gate admits buyers to the queue. It is safe for concurrent use. Any number of gates, in any number of processes,
// share the data in Redis. Errors of Redis are wrapped in domain.ErrUnavailable.
type Gate struct {
	cfg Config

	tickets *batch.Batcher[ticketKey, ticketRead]
	loads   singleflight.Group

	// working is the context of loads, which Close cancels. They hold loading for reading.
	working context.Context
	stop    context.CancelFunc
	loading sync.RWMutex
}

// New returns a gate without connecting to Redis. The caller must Close it after loading a gate.
func New(cfg Config) *Gate {
	cfg.MaxBacklog = cmp.Or(cfg.MaxBacklog, defaultBacklog)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.Segments == nil {
		cfg.Segments = func(context.Context, int64) (int, error) { return 1, nil }
	}

	g := &Gate{cfg: cfg}
	g.tickets = g.newTicketReads()
	g.working, g.stop = context.WithCancel(context.Background())
	return g
}

// Close cancels running loads and waits for them to end. Later ones fail. Another process can start a canceled load again.
func (g *Gate) Close() {
	g.stop()
	g.loading.Lock()
	defer g.loading.Unlock()
}

func (g *Gate) segments(ctx context.Context, voucherID int64) ([]gateKeys, error) {
	n, err := g.cfg.Segments(ctx, voucherID)
	if err != nil {
		return nil, fmt.Errorf("gate: segments of voucher %d: %w", voucherID, err)
	}
	return segmentsOf(voucherID, n), nil
}

//go:embed lua
var sources embed.FS

func lua(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

func script(name string) *redis.Script { return redis.NewScript(lua("common") + lua(name)) }

func unavailable(err error, format string, args ...any) error {
	return fmt.Errorf("%w: gate: %s: %w", domain.ErrUnavailable, fmt.Sprintf(format, args...), err)
}

func (g *Gate) run(ctx context.Context, s *redis.Script, keys []string, args ...any) *redis.Cmd {
	return s.Run(ctx, g.cfg.Redis, keys, args...)
}
