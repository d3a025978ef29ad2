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

// lockRun is the output of loadtest/lockbench by case (uncontended, contended), lock, round and figure: cycles per second, cpu in
// µs per cycle of client and Redis, and the p99 of the wait in ns. That program is a separate module, because it requires other
// lock libraries.
type lockRun map[string]map[string][]map[string]float64

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
		values: quotients(each(alone[ourLock], "cycles"), each(alone[rawLock], "cycles")),
		byCPU:  quotients(each(alone[rawLock], "cpu"), each(alone[ourLock], "cpu")),
		least:  1,
	})

	contended := run["contended"]
	b.report.add(bar{
		what:   "lock: contended cycles/s / the best other library",
		values: quotients(each(contended[ourLock], "cycles"), best(contended, "cycles", slices.Max)),
		least:  1,
	})

	b.report.add(bar{
		what:   "lock: contended, p99 of the wait / the best other library",
		values: quotients(each(contended[ourLock], "p99"), best(contended, "p99", slices.Min)),
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

func each(rounds []map[string]float64, figure string) []float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = r[figure]
	}

	return values
}

func best(all map[string][]map[string]float64, figure string, choose func([]float64) float64) []float64 {
	values := make([]float64, len(all[ourLock]))
	for round := range values {
		var others []float64
		for name, rounds := range all {
			library, _, _ := strings.Cut(name, " ")
			if slices.Contains([]string{"redsync", "redislock", "rueidislock"}, library) {
				others = append(others, rounds[round][figure])
			}
		}
		values[round] = choose(others)
	}

	return values
}
