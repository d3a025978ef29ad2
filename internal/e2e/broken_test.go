package e2e

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"seckill/internal/app"
	"seckill/internal/cli"
	"seckill/internal/queue"
	"seckill/internal/service"
)

// Variables that turn the test binary into the program itself, race detector included, and break it on purpose.
const (
	envRunMain   = "SECKILL_TEST_RUN_MAIN"
	envOpenLocks = "SECKILL_TEST_OPEN_LOCKS" // every user lock is granted at once
	envClock     = "SECKILL_TEST_CLOCK"      // the server's clock stands still at this RFC 3339 time
	envPatience  = "SECKILL_TEST_PATIENCE"   // how long the start waits for its dependencies
	envHold      = "SECKILL_TEST_HOLD"       // the workers commit nothing while this file exists
	envKill      = "SECKILL_TEST_KILL"       // a worker ends its process: "before", "amid" or "after" the commit of a batch
	envRedeliver = "SECKILL_TEST_REDELIVER"  // after how long an entry that failed is delivered again
	envMinAge    = "SECKILL_TEST_MIN_AGE"    // how old orders must be that a reconciler misses
	envPause     = "SECKILL_TEST_PAUSE"      // between its two looks
	envEvery     = "SECKILL_TEST_EVERY"      // how often it looks in the background
	envLasting   = "SECKILL_TEST_LASTING"    // for how long a gate must differ before verify believes it
	envKillKeys  = "SECKILL_TEST_KILL_KEYS"  // the server ends its process when it is about to keep an answer under a key
)

// runBroken is main with the faults that the environment asks for.
func runBroken() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var t app.Tuning
	if os.Getenv(envOpenLocks) != "" {
		t.Locks = openLocks{}
	}
	if at, err := time.Parse(time.RFC3339, os.Getenv(envClock)); err == nil {
		t.Now = func() time.Time { return at }
	}
	t.StartTimeout = duration(envPatience)
	t.MinIdle = duration(envRedeliver)
	t.ClaimEvery = t.MinIdle / 3
	t.GateDiffersFor = duration(envLasting)
	t.MinAge, t.Every, t.Pause = duration(envMinAge), duration(envEvery), duration(envPause)
	if file := os.Getenv(envHold); file != "" {
		t.Commit = held(file)
	}
	if point := os.Getenv(envKill); point != "" {
		t.Commit = deadly(point)
	}
	if os.Getenv(envKillKeys) != "" {
		t.Keys = func(store service.KeyStore) service.KeyStore { return deadlyKeys{store} }
	}
	return cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, t)
}

// duration reads a variable; zero if it is not set.
func duration(name string) time.Duration {
	d, _ := time.ParseDuration(os.Getenv(name))
	return d
}

// openLocks is a lock that stops nobody.
type openLocks struct{}

func (openLocks) TryDo(ctx context.Context, _ int64, fn func(context.Context) error) error {
	return fn(ctx)
}

// held makes workers whose database is away while a file exists.
func held(file string) func(queue.CommitFunc) queue.CommitFunc {
	return func(commit queue.CommitFunc) queue.CommitFunc {
		return func(ctx context.Context, as []service.Admission) []error {
			if _, err := os.Stat(file); err == nil {
				return slices.Repeat([]error{service.ErrUnavailable}, len(as))
			}
			return commit(ctx, as)
		}
	}
}

// killAfter is how many admissions a deadly worker lives for.
const killAfter = 100

// deadly makes a worker that ends its process with SIGKILL at a point of a batch: before the commit, amid it (half of
// the batch is committed) or after it, when the gate has not heard of it yet.
func deadly(point string) func(queue.CommitFunc) queue.CommitFunc {
	return func(commit queue.CommitFunc) queue.CommitFunc {
		var seen atomic.Int64
		return func(ctx context.Context, as []service.Admission) []error {
			if seen.Add(int64(len(as))) < killAfter || len(as) < 2 {
				return commit(ctx, as)
			}
			switch point {
			case "amid":
				commit(ctx, as[:len(as)/2])
			case "after":
				commit(ctx, as)
			}
			die()
			return nil
		}
	}
}

// die is kill -9.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // SIGKILL is not for this thread alone, and may take a moment
}

// deadlyKeys is where a server dies between an effect and its answer.
type deadlyKeys struct{ service.KeyStore }

// KeepAnswers implements service.KeyStore.
func (deadlyKeys) KeepAnswers(context.Context, []service.KeptAnswer) []error {
	die()
	return nil
}
