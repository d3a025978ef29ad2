package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

func describeMachine(ctx context.Context, root string) []fact {
	commit, _ := exec.CommandContext(ctx, "git", "-C", root, "describe", "--always", "--dirty").Output() //nolint:gosec // fixed arguments

	cpu := "unknown"
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if all, err := proc.CPUInfo(); err == nil && len(all) > 0 {
			cpu = all[0].ModelName
		}
	}

	return []fact{
		{"date", time.Now().UTC().Format(time.DateOnly)},
		{"commit", strings.TrimSpace(string(commit))},
		{"CPU", fmt.Sprintf("%s, %d cores", cpu, runtime.NumCPU())},
		{"Go", runtime.Version() + " " + runtime.GOARCH},
	}
}

func describeServers(ctx context.Context, s *stack) ([]fact, error) {
	var version string
	if err := s.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return nil, fmt.Errorf("describe the database: %w", err)
	}

	info, err := s.rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return nil, err
	}

	return []fact{{"database", version}, {"Redis", info["Server"]["redis_version"]}}, nil
}

func statOf(pid int) procfs.ProcStat {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}
	}

	// Fails if the process has ended.
	stat, _ := p.Stat()
	return stat
}

func cpuTime(pid int) time.Duration {
	return time.Duration(statOf(pid).CPUTime() * float64(time.Second))
}

func residentMiB(pid int) float64 { return float64(statOf(pid).ResidentMemory()) / (1 << 20) }
