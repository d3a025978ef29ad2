// Package rig starts whole servers on real databases and Redis for the end-to-end tests, and is their client.
package rig

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"seckill/internal/app"
	"seckill/internal/cli"
	"seckill/internal/domain"
	"seckill/internal/ops/reconcile"
	"seckill/internal/sale/queue"
	"seckill/internal/service"
	"seckill/test/env"
)

// Main runs the tests of a package, or the program if a test has started this binary as a server. After the tests it runs
// cleanup, and prints what the helpers forgave.
func Main(m *testing.M, cleanup ...func()) {
	Prepare()

	env.Main(m, func() error {
		for _, f := range cleanup {
			f()
		}

		if n := forgiven.servers.Load(); n > 0 {
			fmt.Fprintf(os.Stderr, "rig: forgave %d answers 503, %d dial time-outs and %d commands without an answer in time of %d servers\n",
				forgiven.answers.Load(), forgiven.dials.Load(), forgiven.commands.Load(), n)
		}
		return nil
	})
}

// Prepare runs the program and exits if this process is a server that [EnvRunMain] has started. Otherwise it removes the
// settings of the program from the environment, which servers read, too.
func Prepare() {
	if os.Getenv(EnvRunMain) != "" {
		os.Exit(runBroken())
	}

	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		ours := strings.HasPrefix(name, "SECKILL_") && !strings.HasPrefix(name, "SECKILL_TEST")
		if ours || strings.HasPrefix(name, "OTEL_") {
			_ = os.Unsetenv(name)
		}
	}
}

// With SECKILL_TEST_RUN_MAIN the test binary runs the program. The other variables inject
// faults and shorten intervals.
const (
	EnvRunMain    = "SECKILL_TEST_RUN_MAIN"
	EnvOpenLocks  = "SECKILL_TEST_OPEN_LOCKS"  // every user lock is granted at once, exclusive or not
	EnvClock      = "SECKILL_TEST_CLOCK"       // the server's clock always returns this RFC 3339 time
	EnvClockAhead = "SECKILL_TEST_CLOCK_AHEAD" // the server's clock is ahead by the duration in this file
	EnvHold       = "SECKILL_TEST_HOLD"        // commits of the workers fail while this file exists
	EnvRedeliver  = "SECKILL_TEST_REDELIVER"   // idle time after which a failed stream entry is redelivered
	EnvMinAge     = "SECKILL_TEST_MIN_AGE"     // minimum age of an order that reconciliation reports as missing
	EnvPause      = "SECKILL_TEST_PAUSE"       // time between the two snapshots of the command reconcile
	EnvEvery      = "SECKILL_TEST_EVERY"       // interval of a server's reconciliation
	EnvLasting    = "SECKILL_TEST_LASTING"     // how long, about, a gate must differ before verify reports it
	EnvKillKeys   = "SECKILL_TEST_KILL_KEYS"   // SIGKILL before the answer of a keyed request is stored
)

func runBroken() int {
	return cli.Run(cli.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr, parts(os.Getenv, os.Args[1:]))
}

func parts(getenv func(name string) string, args []string) func(*app.Parts) {
	return func(p *app.Parts) {
		if getenv(EnvOpenLocks) != "" {
			p.Locks = openLocks{}
		}

		if at, err := time.Parse(time.RFC3339, getenv(EnvClock)); err == nil {
			p.Now = func() time.Time { return at }
		}
		if file := getenv(EnvClockAhead); file != "" {
			p.Now = func() time.Time { return clockAhead(file) }
		}

		if getenv(EnvKillKeys) != "" {
			p.Keys = func(store service.KeyStore) service.KeyStore { return killBeforeAnswer{store} }
		}

		p.Workers = func(cfg *queue.Config) { changeWorkers(cfg, getenv) }
		p.Reconciler = func(cfg *reconcile.Config) { changeReconciler(cfg, getenv, slices.Contains(args, "serve")) }
	}
}

func changeWorkers(cfg *queue.Config, getenv func(name string) string) {
	idle, _ := time.ParseDuration(getenv(EnvRedeliver))
	cfg.MinIdle = idle
	cfg.ClaimEvery = idle / 3

	if file := getenv(EnvHold); file != "" {
		cfg.Commit = held(file, cfg.Commit)
	}
}

// changeReconciler shortens intervals. A command has no rounds; it derives from their interval for how long a gate must
// differ.
func changeReconciler(cfg *reconcile.Config, getenv func(name string) string, serves bool) {
	change := func(to *time.Duration, name string) {
		if d, err := time.ParseDuration(getenv(name)); err == nil {
			*to = d
		}
	}

	change(&cfg.MinAge, EnvMinAge)
	if serves {
		change(&cfg.Every, EnvEvery)
		return
	}

	change(&cfg.Pause, EnvPause)
	change(&cfg.Every, EnvLasting)
	cfg.Every /= 4
}

// clockAhead returns the time of a clock that may be set at any moment. Without a monotonic reading, every difference
// between two of its times shows when it was set.
func clockAhead(file string) time.Time {
	text, _ := os.ReadFile(file)
	ahead, _ := time.ParseDuration(string(text))
	return time.Now().Add(ahead).Round(0)
}

// openLocks grants every lock without exclusion.
type openLocks struct{}

func (openLocks) TryDo(ctx context.Context, _ int64, fn func(context.Context) error) error {
	return fn(ctx)
}

func held(file string, commit queue.CommitFunc) queue.CommitFunc {
	return func(ctx context.Context, as []domain.Admission) []error {
		if _, err := os.Stat(file); err == nil {
			return slices.Repeat([]error{domain.ErrUnavailable}, len(as))
		}
		return commit(ctx, as)
	}
}

// killBeforeAnswer kills the server between the effect of a keyed request and the storage of its answer.
type killBeforeAnswer struct{ service.KeyStore }

// KeepAnswer implements service.KeyStore.
func (killBeforeAnswer) KeepAnswer(context.Context, *domain.Claim, domain.Answer) error {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	// SIGKILL may reach this thread with a delay.
	select {}
}
