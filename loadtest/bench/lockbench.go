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

// lockRun is the output of loadtest/lockbench by case (uncontended, contended), lock and round. That program is a
// separate module, because it requires other lock libraries.
type lockRun map[string]map[string][]lockResult

type lockResult struct {
	// Per second.
	Cycles float64 `json:"cycles"`
	// CPU time of client and Redis per cycle, in µs.
	CPU float64 `json:"cpu"`
	// 99th percentile of the wait, in ns.
	P99 float64 `json:"p99"`
}

// Names in lockRun.
const (
	rawLock = "two raw commands"
	ourLock = "Mutex"
)

func (b *bench) lockCycles(ctx context.Context, sec *section) error {
	run, tables, err := b.runLockbench(ctx)
	if err != nil {
		return fmt.Errorf("loadtest/lockbench: %w", err)
	}

	sec.note("%s", strings.TrimSpace(tables))

	alone := run["uncontended"]
	b.report.add(bar{
		what:   "lock: uncontended cycles/s / the two raw commands",
		values: quotients(each(alone[ourLock], lockResult.cycles), each(alone[rawLock], lockResult.cycles)),
		byCPU:  quotients(each(alone[rawLock], lockResult.cpu), each(alone[ourLock], lockResult.cpu)),
		least:  1,
	})

	contended := run["contended"]
	b.report.add(bar{
		what:   "lock: contended cycles/s / the best other library",
		values: quotients(each(contended[ourLock], lockResult.cycles), best(contended, lockResult.cycles, slices.Max)),
		least:  1,
	})

	b.report.add(bar{
		what:   "lock: contended, p99 of the wait / the best other library",
		values: quotients(each(contended[ourLock], lockResult.p99), best(contended, lockResult.p99, slices.Min)),
		most:   1,
	})

	return nil
}

func (b *bench) runLockbench(ctx context.Context) (lockRun, string, error) {
	numbers := filepath.Join(b.dir, "locks.json")
	cmd := exec.CommandContext(ctx, "go", "run", ".", //nolint:gosec // values of this program
		"-rounds", strconv.Itoa(b.opts.rounds), "-length", b.opts.cycles.String(), "-json", numbers)
	cmd.Dir = filepath.Join(b.root, "loadtest", "lockbench")
	cmd.Env = append(os.Environ(), "GOWORK=off")

	var problems strings.Builder
	cmd.Stderr = &problems

	tables, err := cmd.Output()
	if err != nil {
		return nil, "", fmt.Errorf("%w\n%s", err, problems.String())
	}

	text, err := os.ReadFile(numbers) //nolint:gosec // a directory of this program
	if err != nil {
		return nil, "", err
	}

	var run lockRun
	err = json.Unmarshal(text, &run)
	return run, string(tables), err
}

func (l lockResult) cycles() float64 { return l.Cycles }
func (l lockResult) cpu() float64    { return l.CPU }
func (l lockResult) p99() float64    { return l.P99 }

func each(rounds []lockResult, of func(lockResult) float64) []float64 {
	values := make([]float64, len(rounds))
	for i, l := range rounds {
		values[i] = of(l)
	}

	return values
}

func best(all map[string][]lockResult, of func(lockResult) float64, choose func([]float64) float64) []float64 {
	var rounds [][]float64
	for name, results := range all {
		library, _, _ := strings.Cut(name, " ")
		if !slices.Contains([]string{"redsync", "redislock", "rueidislock"}, library) {
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
