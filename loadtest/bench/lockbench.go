package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// cycleLine is a result of BenchmarkCycle: its name without the number of CPUs, and its time.
var cycleLine = regexp.MustCompile(`^BenchmarkCycle/(\S+?)(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op(.*)$`)

// rawCycle is the sub-benchmark that sends the two commands of a lock and nothing else.
const rawCycle = "raw"

var errNoCycles = errors.New("the lock benchmark printed no result")

// lockCycles runs the benchmark of package lock, which measures against raw commands.
func (b *bench) lockCycles(ctx context.Context, sec *section) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkCycle$", //nolint:gosec // numbers of our own
		"-benchtime", b.opts.sizes.cycles, "-count", strconv.Itoa(b.opts.rounds), "./internal/lock")
	cmd.Dir, cmd.Env = b.root, append(os.Environ(), "SECKILL_TEST_REQUIRE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test -bench BenchmarkCycle: %w\n%s", err, out)
	}
	order, cycles := parseCycles(string(out))
	if len(cycles[rawCycle]) == 0 || len(order) < 2 {
		return fmt.Errorf("%w:\n%s", errNoCycles, out)
	}
	for _, name := range order {
		if name == rawCycle {
			continue
		}
		sec.note("%s: %s µs a cycle; the raw commands: %s µs", name, spread(scaled(cycles[name], 1e-3)), spread(scaled(cycles[rawCycle], 1e-3)))
		b.report.add(bar{
			what:   fmt.Sprintf("lock: uncontended cycles/s (%s) / the two raw commands", name),
			values: quotients(cycles[rawCycle], cycles[name]), least: 0.8,
		})
	}
	return nil
}

// parseCycles reads nanoseconds a cycle by sub-benchmark, and their names in order.
func parseCycles(out string) (order []string, cycles map[string][]float64) {
	cycles = map[string][]float64{}
	for line := range strings.Lines(out) {
		m := cycleLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		ns, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			continue // the expression lets "1.2.3" pass, the benchmark does not print it
		}
		if cycles[m[1]] == nil {
			order = append(order, m[1])
		}
		cycles[m[1]] = append(cycles[m[1]], ns)
	}
	return order, cycles
}
