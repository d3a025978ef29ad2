package queue

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

// Settler is the gate that fills the streams.
type Settler interface {
	// Parse parses an entry of a stream.
	Parse(stream, entry string, fields map[string]any) (domain.StreamEntry, error)
	// Confirm returns the generation under which the admissions of an entry may be committed. Errors: domain.ErrNotFound
	// (the entry is not in the stream any more), ErrUnavailable.
	Confirm(ctx context.Context, p domain.StreamEntry) (generation int64, err error)
	// Outdate makes the next load of a gate raise its generation.
	Outdate(ctx context.Context, voucherID int64) error
	// Settle ends the admissions of entries after their transaction, and removes the entries from the stream.
	Settle(ctx context.Context, done []domain.StreamEntry) error
	// MoveToDeadLetters moves an entry that cannot be parsed to the dead letters.
	MoveToDeadLetters(ctx context.Context, stream, entry, reason string) error
}

// CommitFunc turns admissions into orders. It returns one result per admission: nil if the order is in the database,
// from this call or an earlier one; domain.ErrSoldOut, *domain.DuplicateOrderError, ErrPassExpired,
// ErrIdempotencyMismatch or ErrIDTaken if the order is refused for good; domain.ErrGateReplaced if the admission must be
// confirmed first; domain.ErrUnavailable if another attempt may succeed. Any other error counts as a try of the admission.
type CommitFunc func(ctx context.Context, as []domain.Admission) []error

// Config configures Workers. Zero values select the defaults.
type Config struct {
	// Redis must not retry commands by itself (MaxRetries -1). Each stream occupies one connection of its pool.
	Redis redis.Cmdable
	// One reader each.
	Streams []string
	Group   string
	// Name of this process in the group, unique among all processes.
	Consumer string
	Gate     Settler
	Commit   CommitFunc
	// LoadGate loads the gate of a voucher if it is cold, or may lack admissions. Until then the database may refuse those
	// that it has.
	LoadGate func(ctx context.Context, voucherID int64) error

	// Most entries per read, of up to 64 admissions each; default 32.
	ReadSize int
	// Most admissions per Commit, unless a single entry has more; default 500.
	BatchSize int
	// Bounds one Commit; should be less than MinIdle; default 5 s.
	CommitTimeout time.Duration
	// Tries after which an admission is dead-lettered; default 5.
	MaxTries int64
	// How long a read waits for entries, and delays the end of Run; default 1 s.
	Block time.Duration
	// Pending time after which an entry counts as abandoned; default 10 s.
	MinIdle time.Duration
	// Time for which the database must refuse the generation of a gate until the gate is loaded under a new one; default 30 s.
	// It is longer than servers use an old master that another one has replaced: that must not outdate the new gate.
	OutdatedAfter time.Duration
	// Pause between claims of abandoned entries; default 3 s.
	ClaimEvery time.Duration
	// Idle time after which a consumer is deleted; default 1 h.
	ConsumerIdle time.Duration
	// How long Run continues unfinished batches after its ctx ended; default 5 s.
	ShutdownTimeout time.Duration

	// Called after every settled entry; must be fast and safe for concurrent use; optional. An entry that cannot be read has
	// an end and no admissions.
	Settled func(domain.StreamEntry)
	Log     *slog.Logger // default: slog.Default()
}

// Workers turn the admissions in the streams into orders. Any number of them, in any number of processes, share the
// work.
type Workers struct {
	cfg Config
}

// New returns workers without connecting to Redis.
func New(cfg Config) *Workers {
	cfg.ReadSize = cmp.Or(cfg.ReadSize, 32)
	cfg.BatchSize = cmp.Or(cfg.BatchSize, 500)
	cfg.CommitTimeout = cmp.Or(cfg.CommitTimeout, 5*time.Second)
	cfg.MaxTries = cmp.Or(cfg.MaxTries, 5)
	cfg.Block = cmp.Or(cfg.Block, time.Second)
	cfg.MinIdle = cmp.Or(cfg.MinIdle, 10*time.Second)
	cfg.OutdatedAfter = cmp.Or(cfg.OutdatedAfter, 30*time.Second)
	cfg.ClaimEvery = cmp.Or(cfg.ClaimEvery, 3*time.Second)
	cfg.ConsumerIdle = cmp.Or(cfg.ConsumerIdle, time.Hour)
	cfg.ShutdownTimeout = cmp.Or(cfg.ShutdownTimeout, 5*time.Second)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())

	if cfg.Settled == nil {
		cfg.Settled = func(domain.StreamEntry) {}
	}

	return &Workers{cfg: cfg}
}

// Run works until ctx ends. Then it finishes the batches that it has read, for at most Config.ShutdownTimeout;
// unfinished entries are claimed by another worker. It creates the group whenever it is missing, even after Redis lost
// it, and retries after any failure of Redis or the database. It returns nil.
func (w *Workers) Run(ctx context.Context) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.cfg.ShutdownTimeout, stop) })()

	var readers sync.WaitGroup
	for _, stream := range w.cfg.Streams {
		r := &reader{
			w:      w,
			stream: stream,
			log:    w.cfg.Log.With(slog.String("stream", stream)),
		}
		readers.Go(func() { r.run(ctx, working) })
	}

	readers.Wait()
	return nil
}
