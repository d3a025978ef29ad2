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
	"strconv"
	"strings"
	"time"
)

// useDisk moves the temporary directory to a disk if there is one, because an fsync on a tmpfs costs nothing.
func useDisk() error {
	dirs := []string{os.TempDir(), "/var/tmp"}
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, cache)
	}
	for _, dir := range dirs {
		if kind, _ := fileSystem(dir); kind != "tmpfs" && writable(dir) {
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

// fileSystem returns the type and the device of a directory's file system, or empty strings without /proc.
func fileSystem(dir string) (kind, device string) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", ""
	}
	mounts, _ := os.ReadFile("/proc/mounts")
	longest := ""
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < len(longest) {
			continue
		}
		if rel, err := filepath.Rel(f[1], dir); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			longest, device, kind = f[1], f[0], f[2]
		}
	}
	return kind, device
}

// describeMachine returns the properties of the machine that affect the results.
func describeMachine(ctx context.Context, root string) []fact {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	kind, device := fileSystem(os.TempDir())
	return []fact{
		{"date", time.Now().UTC().Format(time.DateOnly)},
		{"commit", commit(ctx, root)},
		{"CPU", fmt.Sprintf("%s, %d cores", procField("/proc/cpuinfo", "model name"), runtime.NumCPU())},
		{"memory", fmt.Sprintf("%.1f GiB", float64(memoryBytes())/(1<<30))},
		{"kernel", runtime.GOOS + " " + strings.TrimSpace(string(kernel))},
		{"Go", runtime.Version() + " " + runtime.GOARCH},
		{"data on", fmt.Sprintf("%s, %s; write and fsync of 4 KiB: %s", kind, device, fsyncTime())},
	}
}

// describeServers returns the versions and durability settings of MariaDB and Redis.
func describeServers(ctx context.Context, s *stack) ([]fact, error) {
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
	return []fact{
		{"database", fmt.Sprintf("%s; innodb_flush_log_at_trx_commit=%s, innodb_flush_method=%s, buffer pool %s MiB, redo log %s MiB, no binary log",
			version, flush, method, pool, log)},
		{"Redis", fmt.Sprintf("%s; appendonly %s, appendfsync %s", infoField(info, "redis_version"), settings["appendonly"], settings["appendfsync"])},
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

// procField returns the value of a line "name : value", or an empty string.
func procField(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// memoryBytes returns the memory of the machine, or 1 GiB if it is unknown.
func memoryBytes() int64 {
	kb, err := strconv.ParseInt(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	if err != nil {
		return 1 << 30
	}
	return kb << 10
}

// fsyncTime returns the median time of 100 writes of 4 KiB, each with fsync. It shows whether the disk really syncs.
func fsyncTime() string {
	f, err := os.CreateTemp("", "seckill-bench-")
	if err != nil {
		return "unknown"
	}
	defer os.Remove(f.Name()) //nolint:errcheck // a temporary file
	defer f.Close()           //nolint:errcheck // a temporary file
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
