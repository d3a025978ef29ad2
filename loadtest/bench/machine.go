package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"seckill/loadtest/bench/report"
	"seckill/loadtest/bench/sysinfo"
)

// describeMachine returns the properties of the machine that affect the results.
func describeMachine(ctx context.Context, root string) []report.Fact {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	kind, device := sysinfo.FileSystem(os.TempDir())

	return []report.Fact{
		{Name: "date", Value: time.Now().UTC().Format(time.DateOnly)},
		{Name: "commit", Value: commit(ctx, root)},
		{Name: "CPU", Value: fmt.Sprintf("%s, %d cores", sysinfo.CPUModel(), runtime.NumCPU())},
		{Name: "memory", Value: fmt.Sprintf("%.1f GiB", float64(sysinfo.Memory())/(1<<30))},
		{Name: "kernel", Value: runtime.GOOS + " " + strings.TrimSpace(string(kernel))},
		{Name: "Go", Value: runtime.Version() + " " + runtime.GOARCH},
		{Name: "data on", Value: fmt.Sprintf("%s, %s; write and fsync of 4 KiB: %s", kind, device, sysinfo.FsyncTime())},
	}
}

// describeServers returns the versions and durability settings of MariaDB and Redis.
func describeServers(ctx context.Context, s *stack) ([]report.Fact, error) {
	var version, flush, method, pool, log string
	err := s.db.QueryRowContext(ctx, `SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@innodb_flush_method,
		@@innodb_buffer_pool_size DIV 1048576, @@innodb_log_file_size DIV 1048576`).Scan(&version, &flush, &method, &pool, &log)
	if err != nil {
		return nil, fmt.Errorf("describe the database: %w", err)
	}

	info, err := s.rdb.Info(ctx, "server").Result()
	if err != nil {
		return nil, err
	}

	settings := map[string]string{}
	for _, name := range []string{"appendonly", "appendfsync"} {
		got, err := s.rdb.ConfigGet(ctx, name).Result()
		if err != nil {
			return nil, err
		}
		settings[name] = got[name]
	}

	return []report.Fact{
		{Name: "database", Value: fmt.Sprintf("%s; innodb_flush_log_at_trx_commit=%s, innodb_flush_method=%s, buffer pool %s MiB, redo log %s MiB, no binary log",
			version, flush, method, pool, log)},
		{Name: "Redis", Value: fmt.Sprintf("%s; appendonly %s, appendfsync %s", infoField(info, "redis_version"), settings["appendonly"], settings["appendfsync"])},
	}, nil
}

// commit returns the commit that is measured.
func commit(ctx context.Context, root string) string {
	git := func(args ...string) string {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output() //nolint:gosec // fixed arguments
		if err != nil {
			return "unknown"
		}
		return strings.TrimSpace(string(out))
	}

	name := git("rev-parse", "--short", "HEAD")
	if name != "unknown" && git("status", "--porcelain") != "" {
		name += " with uncommitted changes"
	}

	return name
}
