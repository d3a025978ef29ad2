// Lockbench compares the locks of internal/lock with other libraries on one
// Redis of its own, and prints two Markdown tables. It is a module of its own,
// so that the product does not carry the others.
//
//	cd loadtest/lockbench && go run .          # some three minutes
//	cd loadtest/lockbench && go run . -quick   # does it work?
//
// loadtest/bench runs it, too, and takes the numbers from the file of -json.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testenv"
)

func main() {
	quick := flag.Bool("quick", false, "one short round, whose numbers mean little")
	rounds := flag.Int("rounds", 5, "rounds, in which everybody takes a turn")
	length := flag.Duration("length", 2*time.Second, "length of a turn")
	numbers := flag.String("json", "", "write the numbers to this file, too")
	flag.Parse()
	if *quick {
		*rounds, *length = 1, 200*time.Millisecond
	}
	if err := compare(os.Stdout, *rounds, *length, *numbers); err != nil {
		fmt.Fprintln(os.Stderr, "lockbench:", err)
		os.Exit(1)
	}
}

// A table is what everybody did, by name and round.
type table map[string][]result

// compare measures everybody in turn, so many times, and prints the medians.
func compare(out io.Writer, rounds int, length time.Duration, numbers string) (err error) {
	server, err := testenv.RunRedis(context.Background())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	f, err := newField(server.Addr)
	defer f.close()
	if err != nil {
		return err
	}
	info := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = info.Close() }()

	apart, together := table{}, table{}
	for round := range rounds {
		for _, c := range f.contenders {
			r, err := run(f, c, info, round, true, length)
			if err != nil {
				return err
			}
			apart[c.name] = append(apart[c.name], r)
			if !c.waits {
				continue
			}
			if r, err = run(f, c, info, round, false, length); err != nil {
				return err
			}
			together[c.name] = append(together[c.name], r)
		}
	}
	fmt.Fprintf(out, "%d rounds of %v each, medians; %d CPUs, %s. CPU time is that of the client and Redis.\n\n", rounds, length, runtime.NumCPU(), runtime.Version())
	printApart(out, f, apart)
	printTogether(out, f, together)
	if numbers == "" {
		return nil
	}
	text, err := json.Marshal(map[string]table{"uncontended": apart, "contended": together})
	if err != nil {
		return err
	}
	return os.WriteFile(numbers, text, 0o600)
}

func printApart(out io.Writer, f *field, results table) {
	fmt.Fprintf(out, "Uncontended: %d goroutines, a name each.\n\n", workers)
	fmt.Fprintln(out, "| lock | cycles/s | / raw | requests a cycle | server commands a cycle | CPU µs a cycle | p50 | p99 |")
	fmt.Fprintln(out, "|---|---:|---:|---:|---:|---:|---:|---:|")
	base := median(results[f.contenders[0].name]).Cycles
	for _, c := range f.contenders {
		r := median(results[c.name])
		fmt.Fprintf(out, "| %s | %.0f | %.2f | %.2f | %.1f | %.0f | %s | %s |\n",
			c.name, r.Cycles, r.Cycles/base, r.Requests, r.Commands, r.CPU, millis(r.P50), millis(r.P99))
	}
}

func printTogether(out io.Writer, f *field, results table) {
	fmt.Fprintf(out, "\nContended: %d goroutines, one name, held for %v; those that poll do so each %v.\n\n", workers, hold, poll)
	fmt.Fprintln(out, "| lock | cycles/s | / Mutex | requests a cycle | server commands a cycle | CPU µs a cycle | wait p50 | wait p99 | busiest / laziest |")
	fmt.Fprintln(out, "|---|---:|---:|---:|---:|---:|---:|---:|---:|")
	base := median(results[f.contenders[1].name]).Cycles
	for _, c := range f.contenders {
		if !c.waits {
			continue
		}
		r := median(results[c.name])
		fmt.Fprintf(out, "| %s | %.0f | %.2f | %.2f | %.1f | %.0f | %s | %s | %.2f |\n",
			c.name, r.Cycles, r.Cycles/base, r.Requests, r.Commands, r.CPU, millis(r.P50), millis(r.P99), r.Unfair)
	}
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
