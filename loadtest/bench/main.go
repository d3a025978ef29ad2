// Command bench measures the order path and reference servers on the same machine in the same run, and prints ratios:
//
//	go run ./loadtest/bench            # everything, about a quarter of an hour; writes loadtest/RESULTS.md
//	go run ./loadtest/bench -quick     # a short run of everything for CI; its numbers are not meaningful
//	go run ./loadtest/bench -only orders,queue -rounds 5
//
// It starts and stops the servers, all on 127.0.0.1. loadtest/README.md has the method.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
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
	// Length of one turn in the lock benchmark.
	cycles time.Duration
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
		cycles:   2 * time.Second,
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
		cycles:   200 * time.Millisecond,
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
