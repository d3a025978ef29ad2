package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

// Settler is the gate that filled the streams.
type Settler interface {
	// Parse reads an entry of a stream.
	Parse(stream, entry string, fields map[string]any) (service.Parcel, error)
	// Settle ends the admissions of parcels after their transaction and takes the entries out of the stream.
	Settle(ctx context.Context, done []service.Parcel) error
	// Bury moves an entry that cannot be read out of the stream to the dead letters.
	Bury(ctx context.Context, stream, entry, reason string, tries int64) error
}

// CommitFunc makes orders of admissions. Each has its own answer: nil if the order is in the database, now or from
// before; service.ErrSoldOut, *service.DuplicateOrderError, ErrIDTaken if there never will be one;
// service.ErrUnavailable if it is worth trying again; anything else is the fault of the admission.
type CommitFunc func(ctx context.Context, as []service.Admission) []error

// Config is what Workers need. Zero values stand for the defaults.
type Config struct {
	// Redis must not retry commands by itself (MaxRetries -1). Each stream keeps one connection of its pool busy.
	Redis       redis.UniversalClient
	Streams     []string // one reader each
	Tickets     []string // hashes whose fields are the users with something in the streams; counted by Lag
	DeadStreams []string // counted by Lag
	Group       string
	Consumer    string // names this process in the group; no other process may have the same
	Gate        Settler
	Commit      CommitFunc

	ReadSize        int           // entries that are read at once at most; default 32, of up to 64 admissions each
	BatchSize       int           // admissions that are committed at once, unless one entry has more; default 500
	CommitTimeout   time.Duration // bounds one Commit, and should be less than MinIdle; default 5 s
	MaxTries        int64         // tries after which poison is buried; default 5
	Block           time.Duration // how long a read waits for entries, and Run for a read; default 1 s
	MinIdle         time.Duration // how long an entry is pending before it is taken for abandoned; default 10 s
	ClaimEvery      time.Duration // how often to look for those; default 3 s
	ConsumerIdle    time.Duration // how long a consumer is idle before it is taken for gone; default 1 h
	ShutdownTimeout time.Duration // how long Run works on what it has in hand after its ctx ended; default 5 s

	Observe func(Batch)          // told of every batch; must be quick and safe for concurrent use; default: nobody
	Settled func(service.Parcel) // told of every parcel whose ends the gate has heard; likewise
	Log     *slog.Logger         // default: slog.Default()
}

// Batch is what became of the admissions in entries that were delivered together.
type Batch struct {
	Stream    string
	Entries   int
	Claimed   bool // they had been delivered before
	Committed int
	Failed    map[string]int // refused for good, by reason
	Buried    int            // an entry that cannot be read is one
	Pending   int            // left to be delivered again, or put back
	Took      time.Duration  // from the delivery on
}

// Workers read the streams. Any number of them, in any number of processes, share the work.
type Workers struct {
	cfg Config
}

// New makes workers. It does not talk to Redis.
func New(cfg Config) *Workers {
	setDefault(&cfg.ReadSize, 32)
	setDefault(&cfg.BatchSize, 500)
	setDefault(&cfg.CommitTimeout, 5*time.Second)
	setDefault(&cfg.MaxTries, 5)
	setDefault(&cfg.Block, time.Second)
	setDefault(&cfg.MinIdle, 10*time.Second)
	setDefault(&cfg.ClaimEvery, 3*time.Second)
	setDefault(&cfg.ConsumerIdle, time.Hour)
	setDefault(&cfg.ShutdownTimeout, 5*time.Second)
	if cfg.Observe == nil {
		cfg.Observe = func(Batch) {}
	}
	if cfg.Settled == nil {
		cfg.Settled = func(service.Parcel) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Workers{cfg: cfg}
}

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Run works until ctx ends, and then until the batches in hand are done, for at most Config.ShutdownTimeout; what is
// not done by then is delivered again, to whoever claims it. It creates the group where it is missing, also when
// Redis lost it meanwhile, and outlives any failure of Redis and of the database. It returns nil.
func (w *Workers) Run(ctx context.Context) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.cfg.ShutdownTimeout, stop) })()

	var readers sync.WaitGroup
	for _, stream := range w.cfg.Streams {
		r := &reader{w: w, stream: stream, log: w.cfg.Log.With(slog.String("stream", stream))}
		readers.Go(func() { r.run(ctx, working) })
	}
	readers.Wait()
	return nil
}
