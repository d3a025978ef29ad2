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
)

// lockRun is what loadtest/lockbench writes: by case (uncontended, contended), lock and round. That program is a module
// of its own, because of the other libraries.
type lockRun map[string]map[string][]lockResult

type lockResult struct {
	Cycles   float64 `json:"cycles"`   // a second
	Requests float64 `json:"requests"` // a cycle, over the network
	CPU      float64 `json:"cpu"`      // a cycle, of client and Redis, in microseconds
	P99      float64 `json:"p99"`      // of the wait, ns
	Unfair   float64 `json:"unfair"`   // cycles of the busiest worker to those of the laziest
}

// Names in lockRun.
const (
	rawLock = "two raw commands"
	ourLock = "Mutex"
)

// lockLibraries are the others in lockRun: their names begin so.
var lockLibraries = []string{"redsync", "redislock", "rueidislock"}

// lockCycles measures the locks of internal/lock beside raw commands and other libraries.
func (b *bench) lockCycles(ctx context.Context, sec *section) error {
	dir, err := os.MkdirTemp("", "seckill-lockbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system will
	numbers := filepath.Join(dir, "numbers.json")
	cmd := exec.CommandContext(ctx, "go", "run", ".", "-rounds", strconv.Itoa(b.opts.rounds), //nolint:gosec // numbers of our own
		"-length", b.opts.sizes.cycles.String(), "-json", numbers)
	cmd.Dir, cmd.Env = filepath.Join(b.root, "loadtest", "lockbench"), append(os.Environ(), "GOWORK=off")
	var problems strings.Builder
	cmd.Stderr = &problems
	tables, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("loadtest/lockbench: %w\n%s", err, problems.String())
	}
	text, err := os.ReadFile(numbers) //nolint:gosec // a folder of our own
	if err != nil {
		return err
	}
	var run lockRun
	if err := json.Unmarshal(text, &run); err != nil {
		return fmt.Errorf("loadtest/lockbench: %w", err)
	}
	sec.note("%s", strings.TrimSpace(string(tables)))
	for _, bar := range run.bars() {
		b.report.add(bar)
	}
	return nil
}

// bars returns the ratios that the locks must reach.
func (r lockRun) bars() []bar {
	alone, crowd := r["uncontended"], r["contended"]
	cycles, cpu := func(l lockResult) float64 { return l.Cycles }, func(l lockResult) float64 { return l.CPU }
	return []bar{
		{what: "lock: uncontended cycles/s / the two raw commands", values: quotients(each(alone[ourLock], cycles), each(alone[rawLock], cycles)),
			byCPU: quotients(each(alone[rawLock], cpu), each(alone[ourLock], cpu)), least: 1},
		{what: "lock: uncontended cycles/s / the best of redsync and redislock", values: quotients(
			each(alone[ourLock], cycles), best(alone, lockLibraries[:2], cycles, slices.Max[[]float64])), least: 1},
		{what: "lock: contended cycles/s / the best other library", values: quotients(
			each(crowd[ourLock], cycles), best(crowd, lockLibraries, cycles, slices.Max[[]float64])), least: 1},
		{what: "lock: contended, requests a cycle", values: each(crowd[ourLock], func(l lockResult) float64 { return l.Requests }), most: 3},
		{what: "lock: contended, 99th percentile of the wait / the best other library", values: quotients(
			each(crowd[ourLock], p99), best(crowd, lockLibraries, p99, slices.Min[[]float64])), most: 1},
		{what: "lock: Fair contended, cycles of the busiest worker / of the laziest", values: each(crowd["Fair"],
			func(l lockResult) float64 { return l.Unfair }), most: 1.2},
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

// best returns the best number of the libraries in each round.
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
