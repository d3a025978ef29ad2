// Command lockbench compares the locks of internal/lock with other libraries on a Redis of its own, and prints two Markdown
// tables. It is a separate module, so that the product does not depend on the other libraries.
//
//	cd loadtest/lockbench && go run . # some three minutes
//
// loadtest/bench runs it too, and reads the results from the file named by -json.
package main

import (
	"cmp"
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

	"seckill/test/env/servers"
)

func main() {
	rounds := flag.Int("rounds", 5, "number of rounds; every lock is measured in each")
	length := flag.Duration("length", 2*time.Second, "length of a run")
	numbers := flag.String("json", "", "also write the results as JSON to this file")
	flag.Parse()

	if err := compare(os.Stdout, *rounds, *length, *numbers); err != nil {
		fmt.Fprintln(os.Stderr, "lockbench:", err)
		os.Exit(1)
	}
}

// A table has the results of every lock, by name and round.
type table map[string][]result

func compare(out io.Writer, rounds int, length time.Duration, numbers string) (err error) {
	server, err := servers.RunRedis(context.Background())
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

	uncontended := table{}
	contended := table{}
	for round := range rounds {
		for _, c := range f.contenders {
			r, err := run(c, info, round, false, length)
			if err != nil {
				return err
			}

			uncontended[c.name] = append(uncontended[c.name], r)
			if !c.canWait {
				continue
			}

			if r, err = run(c, info, round, true, length); err != nil {
				return err
			}

			contended[c.name] = append(contended[c.name], r)
		}
	}

	fmt.Fprintf(out, "%d rounds of %v each, medians; %d CPUs, %s. CPU time is that of the client and Redis.\n\n", rounds, length, runtime.NumCPU(), runtime.Version())
	fmt.Fprintf(out, "Uncontended: %d goroutines with a name each.\n", workers)
	printTable(out, f, uncontended)
	fmt.Fprintf(out, "\nContended: %d goroutines, one name, held for %v; polling libraries poll every %v.\n", workers, hold, poll)
	printTable(out, f, contended)

	if numbers == "" {
		return nil
	}

	text, err := json.Marshal(map[string]table{"uncontended": uncontended, "contended": contended})
	if err != nil {
		return err
	}

	return os.WriteFile(numbers, text, 0o600)
}

// printTable compares every lock that has results with the first one.
func printTable(out io.Writer, f *field, results table) {
	fmt.Fprintln(out, "\n| lock | cycles/s | / first | CPU µs per cycle | wait p50 | wait p99 | most / fewest cycles |")
	fmt.Fprintln(out, "|---|---:|---:|---:|---:|---:|---:|")

	base := 0.0
	for _, c := range f.contenders {
		if len(results[c.name]) == 0 {
			continue
		}

		r := median(results[c.name])
		base = cmp.Or(base, r.Cycles)
		fmt.Fprintf(out, "| %s | %.0f | %.2f | %.0f | %s | %s | %.2f |\n",
			c.name, r.Cycles, r.Cycles/base, r.CPU, millis(r.P50), millis(r.P99), r.Unfair)
	}
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
