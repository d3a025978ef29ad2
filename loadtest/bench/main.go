// Command bench measures the order path and reference servers on the same machine in the same run, and prints ratios:
//
//	go run ./loadtest/bench            # everything, about a quarter of an hour; writes loadtest/RESULTS.md
//	go run ./loadtest/bench -quick     # a short run of everything for CI; its numbers are not meaningful
//	go run ./loadtest/bench -only orders,queue -rounds 5
//
// It starts and stops the servers, all on 127.0.0.1. loadtest/README.md has the method.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()

	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 4 && args[0] == referenceCommand {
		return serveReference(ctx, args[1], args[2], args[3])
	}

	opts, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}

	return newBench(opts, stdout, stderr).run(ctx)
}

// options are the values of the flags.
type options struct {
	quick  bool
	rounds int
	only   []string
	sizes
}

// sizes are the dimensions of the scenarios. They are smaller with -quick.
type sizes struct {
	conns int
	// Length of a run.
	length time.Duration
	// Limit of orders per run, one for each user.
	orders int
	// Existing orders: few, and many.
	history [2]int
	// Sales at the same time.
	vouchers int
	// Server processes on one database.
	servers int
	// Buyers and stock of the load simulation on the embedded default.
	rush [2]int
	// Buffer pool of the database in bytes.
	buffer int64
}

var (
	fullSizes = sizes{
		conns:    256,
		length:   4 * time.Second,
		orders:   100_000,
		history:  [2]int{1_000, 5_000_000},
		vouchers: 1000,
		servers:  4,
		rush:     [2]int{10_000, 2_000},
		buffer:   2 << 30,
	}
	quickSizes = sizes{
		conns:    64,
		length:   500 * time.Millisecond,
		orders:   2_000,
		history:  [2]int{1_000, 20_000},
		vouchers: 10,
		servers:  2,
		rush:     [2]int{1_000, 200},
		buffer:   256 << 20,
	}
)

func parseOptions(args []string, stderr io.Writer) (options, error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)

	o := options{sizes: fullSizes}
	f.BoolVar(&o.quick, "quick", false, "run everything once and briefly; the numbers are not meaningful")
	f.IntVar(&o.rounds, "rounds", 3, "rounds per scenario")
	only := f.String("only", "", "scenarios, of "+strings.Join(scenarioNames(), ",")+" (default all, and a report in loadtest/RESULTS.md)")

	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.rounds < 1 || f.NArg() > 0 {
		return o, errors.New("-rounds must be positive, and there are no arguments; see -help")
	}

	if o.quick {
		o.rounds = 1
		o.sizes = quickSizes
	}

	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, name := range o.only {
		if !slices.Contains(scenarioNames(), name) {
			return o, fmt.Errorf("-only: %q is not one of %s", name, strings.Join(scenarioNames(), ", "))
		}
	}

	return o, nil
}

// bench is one run of this program.
type bench struct {
	opts   options
	stdout io.Writer
	stderr io.Writer
	start  time.Time
	// Root directory of the module.
	root string
	// Temporary directory.
	dir string
	// Path of the seckill program.
	binary string
	// For scenarios without a private stack; nil until first use.
	shared *stack
	report report
}

func newBench(o options, stdout, stderr io.Writer) *bench {
	return &bench{
		opts:   o,
		stdout: stdout,
		stderr: stderr,
		start:  time.Now(),
		report: report{quick: o.quick},
	}
}

// run measures the chosen scenarios. If one fails, it continues with the others and returns the error at the end.
func (b *bench) run(ctx context.Context) (err error) {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()

	b.report.facts = describeMachine(ctx, b.root)

	var failed []error
	for _, s := range scenarios {
		if len(b.opts.only) > 0 && !slices.Contains(b.opts.only, s.name) {
			continue
		}

		b.progress("%s: %s", s.name, s.title)
		sec := &section{title: s.title}
		b.report.sections = append(b.report.sections, sec)

		err := s.run(b, ctx, sec)
		if b.shared != nil {
			if err != nil {
				for p := range b.shared.servers {
					b.progress("  %s:\n%s", p.Addr, p.LastLog())
				}
			}
			err = errors.Join(err, b.shared.stopServers())
		}

		if err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}

			b.progress("%s: FAILED: %v", s.name, err)
			sec.failed = err
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
		}
	}

	b.report.facts = append(b.report.facts, fact{"runs", fmt.Sprintf("%d rounds of at most %s or %s orders; the whole took %s",
		b.opts.rounds, b.opts.length, thousands(int64(b.opts.orders)), time.Since(b.start).Round(time.Second))})
	fmt.Fprint(b.stdout, b.report.summary())

	if !b.opts.quick && len(b.opts.only) == 0 {
		path := filepath.Join(b.root, "loadtest", "RESULTS.md")
		failed = append(failed, os.WriteFile(path, []byte(b.report.markdown()), 0o644)) //nolint:gosec // a public report
	}

	return errors.Join(failed...)
}

func (b *bench) prepare(ctx context.Context) error {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}

	b.root = filepath.Dir(string(bytes.TrimSpace(mod)))

	// An fsync in memory, where /tmp may be, costs nothing.
	if os.Getenv("TMPDIR") == "" {
		if err := os.Setenv("TMPDIR", "/var/tmp"); err != nil {
			return err
		}
	}

	if b.dir, err = os.MkdirTemp("", "seckill-bench-"); err != nil {
		return err
	}

	b.binary = filepath.Join(b.dir, "seckill")
	b.progress("building the server")

	build := exec.CommandContext(ctx, "go", "build", "-o", b.binary, "./cmd/seckill") //nolint:gosec // a directory of this program
	build.Dir = b.root

	// As a release is built, whose compiled packages it shares.
	build.Env = append(os.Environ(), "CGO_ENABLED=0")

	if out, err := build.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("build the server: %w\n%s", err, out), b.close())
	}

	return nil
}

func (b *bench) stack(ctx context.Context) (*stack, error) {
	if b.shared != nil {
		return b.shared, nil
	}

	s, err := b.newStack(ctx, "shared")
	if err != nil {
		return nil, err
	}
	b.shared = s

	servers, err := describeServers(ctx, s)
	b.report.facts = append(b.report.facts, servers...)
	return s, err
}

func (b *bench) newStack(ctx context.Context, name string) (*stack, error) {
	b.progress("starting MariaDB and Redis, seeding %d users", b.opts.orders)
	return newStack(ctx, b.binary, filepath.Join(b.dir, name), b.opts.orders, b.opts.buffer)
}

func (b *bench) close() error {
	var err error
	if b.shared != nil {
		err = b.shared.close()
	}

	return errors.Join(err, os.RemoveAll(b.dir)) //nolint:gosec // made by MkdirTemp
}

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(b.stderr, "%6.1fs  %s\n", time.Since(b.start).Seconds(), fmt.Sprintf(format, args...))
}
