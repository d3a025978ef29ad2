package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"seckill/loadtest/bench/report"
)

// lockRun is the output of loadtest/lockbench by case (uncontended, contended), lock and round. That program is a
// separate module, because it requires other lock libraries.
type lockRun map[string]map[string][]lockResult

type lockResult struct {
	Cycles float64 `json:"cycles"` // per second
	// Network requests per cycle.
	Requests float64 `json:"requests"`
	// CPU time of client and Redis per cycle, in µs.
	CPU float64 `json:"cpu"`
	// 99th percentile of the wait, in ns.
	P99 float64 `json:"p99"`
	// Ratio of the most to the fewest cycles of a worker.
	Unfair float64 `json:"unfair"`
}

// Names in lockRun.
const (
	rawLock = "two raw commands"
	ourLock = "Mutex"
)

// lockLibraries are prefixes of the names of other libraries in lockRun.
var lockLibraries = []string{"redsync", "redislock", "rueidislock"}

// lockCycles compares the locks of internal/lock with raw commands and with other libraries.
func (b *bench) lockCycles(ctx context.Context, sec *report.Section) error {
	dir, err := os.MkdirTemp("", "seckill-lockbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // only a temporary directory remains

	numbers := filepath.Join(dir, "numbers.json")
	cmd := exec.CommandContext(ctx, "go", "run", ".", "-rounds", strconv.Itoa(b.opts.rounds), //nolint:gosec // values of this program
		"-length", b.opts.sizes.cycles.String(), "-json", numbers)

	cmd.Dir = filepath.Join(b.root, "loadtest", "lockbench")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var problems strings.Builder
	cmd.Stderr = &problems

	tables, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("loadtest/lockbench: %w\n%s", err, problems.String())
	}

	text, err := os.ReadFile(numbers) //nolint:gosec // a directory of this program
	if err != nil {
		return err
	}

	var run lockRun
	if err := json.Unmarshal(text, &run); err != nil {
		return fmt.Errorf("loadtest/lockbench: %w", err)
	}

	sec.Note("%s", strings.TrimSpace(string(tables)))

	for _, bar := range run.bars() {
		b.report.Add(bar)
	}

	return nil
}

// bars returns the ratios and their targets.
func (r lockRun) bars() []report.Bar {
	alone := r["uncontended"]
	contended := r["contended"]
	cycles := func(l lockResult) float64 { return l.Cycles }
	cpu := func(l lockResult) float64 { return l.CPU }

	return []report.Bar{
		{What: "lock: uncontended cycles/s / the two raw commands", Values: report.Quotients(each(alone[ourLock], cycles), each(alone[rawLock], cycles)),
			ByCPU: report.Quotients(each(alone[rawLock], cpu), each(alone[ourLock], cpu)), Least: 1},
		{What: "lock: uncontended cycles/s / the best of redsync and redislock", Values: report.Quotients(
			each(alone[ourLock], cycles), best(alone, lockLibraries[:2], cycles, slices.Max[[]float64])), Least: 1},
		{What: "lock: contended cycles/s / the best other library", Values: report.Quotients(
			each(contended[ourLock], cycles), best(contended, lockLibraries, cycles, slices.Max[[]float64])), Least: 1},
		{What: "lock: contended, requests per cycle", Values: each(contended[ourLock], func(l lockResult) float64 { return l.Requests }), Most: 3},
		{What: "lock: contended, p99 of the wait / the best other library", Values: report.Quotients(
			each(contended[ourLock], p99), best(contended, lockLibraries, p99, slices.Min[[]float64])), Most: 1},
		{What: "lock: Fair contended, most / fewest cycles of a worker", Values: each(contended["Fair"],
			func(l lockResult) float64 { return l.Unfair }), Most: 1.2},
	}
}

func p99(l lockResult) float64 { return l.P99 }

func each(rounds []lockResult, of func(lockResult) float64) []float64 {
	values := make([]float64, len(rounds))
	for i, l := range rounds {
		values[i] = of(l)
	}
	return values
}

// best returns the best value among the libraries for each round.
func best(all map[string][]lockResult, libraries []string, of func(lockResult) float64, choose func([]float64) float64) []float64 {
	var rounds [][]float64
	for name, results := range all {
		if !slices.ContainsFunc(libraries, func(l string) bool { return strings.HasPrefix(name, l+" ") }) {
			continue
		}

		for i, l := range results {
			if i == len(rounds) {
				rounds = append(rounds, nil)
			}
			rounds[i] = append(rounds[i], of(l))
		}
	}

	values := make([]float64, len(rounds))
	for i, of := range rounds {
		values[i] = choose(of)
	}

	return values
}
