package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"seckill/loadtest/bench/report"
)

func describeMachine(ctx context.Context, root string) []report.Fact {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")

	return []report.Fact{
		{Name: "date", Value: time.Now().UTC().Format(time.DateOnly)},
		{Name: "commit", Value: commit(ctx, root)},
		{Name: "CPU", Value: fmt.Sprintf("%s, %d cores", cpuModel(), runtime.NumCPU())},
		{Name: "memory", Value: fmt.Sprintf("%.1f GiB", float64(memory())/(1<<30))},
		{Name: "kernel", Value: runtime.GOOS + " " + strings.TrimSpace(string(kernel))},
		{Name: "Go", Value: runtime.Version() + " " + runtime.GOARCH},
		{Name: "data on", Value: fileSystem(os.TempDir()) + "; write and fsync of 4 KiB: " + fsyncTime()},
	}
}

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

// fileSystem returns the type and the device of a directory's file system, or an empty string without /proc.
func fileSystem(dir string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}

	mounts, _ := procfs.GetMounts()
	found := &procfs.MountInfo{}
	for _, m := range mounts {
		rel, err := filepath.Rel(m.MountPoint, dir)
		if err == nil && filepath.IsLocal(rel) && len(m.MountPoint) >= len(found.MountPoint) {
			found = m
		}
	}

	return found.FSType + ", " + found.Source
}

// cpuModel returns the name of the processor, or an empty string without /proc.
func cpuModel() string {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return ""
	}

	cpus, err := proc.CPUInfo()
	if err != nil || len(cpus) == 0 {
		return ""
	}

	return cpus[0].ModelName
}

// memory returns the memory of the machine in bytes, or 1 GiB if it is unknown.
func memory() int64 {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 1 << 30
	}

	info, err := proc.Meminfo()
	if err != nil || info.MemTotalBytes == nil {
		return 1 << 30
	}

	return int64(*info.MemTotalBytes) //nolint:gosec // no machine has more
}

// useDisk moves the temporary directory to a disk if there is one, because an fsync on a tmpfs costs nothing.
func useDisk() error {
	dirs := []string{os.TempDir(), "/var/tmp"}
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, cache)
	}

	for _, dir := range dirs {
		if !strings.HasPrefix(fileSystem(dir), "tmpfs,") && writable(dir) {
			return os.Setenv("TMPDIR", dir)
		}
	}

	return nil
}

func writable(dir string) bool {
	f, err := os.CreateTemp(dir, "seckill-bench-")
	if err != nil {
		return false
	}

	return errors.Join(f.Close(), os.Remove(f.Name())) == nil
}

// fsyncTime returns the median time of 100 writes of 4 KiB, each with fsync. It shows whether the disk really syncs.
func fsyncTime() string {
	f, err := os.CreateTemp("", "seckill-bench-")
	if err != nil {
		return "unknown"
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }()

	page := make([]byte, 4096)
	var took []time.Duration
	for range 100 {
		start := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			return "unknown"
		}
		if err := f.Sync(); err != nil {
			return "unknown"
		}

		took = append(took, time.Since(start))
	}

	slices.Sort(took)
	return took[len(took)/2].Round(time.Microsecond).String()
}

// statOf returns the kernel's figures of a process, which are 0 without /proc.
func statOf(pid int) procfs.ProcStat {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}
	}

	// Fails if the process has ended.
	stat, _ := p.Stat()
	return stat
}

// cpuTime returns the user and system CPU time of a process, or 0 without /proc.
func cpuTime(pid int) time.Duration {
	return time.Duration(statOf(pid).CPUTime() * float64(time.Second))
}

// residentMiB returns the resident memory of a process in MiB, or 0 without /proc.
func residentMiB(pid int) float64 { return float64(statOf(pid).ResidentMemory()) / (1 << 20) }
