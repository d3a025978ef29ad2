// Package sysinfo reads the properties of a Linux machine and the resources that its processes use from /proc.
package sysinfo

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FileSystem returns the type and the device of a directory's file system, or empty strings without /proc.
func FileSystem(dir string) (kind, device string) {
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
			longest = f[1]
			device = f[0]
			kind = f[2]
		}
	}

	return kind, device
}

// CPUModel returns the name of the processor, or an empty string if it is unknown.
func CPUModel() string { return procField("/proc/cpuinfo", "model name") }

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

// Memory returns the memory of the machine in bytes, or 1 GiB if it is unknown.
func Memory() int64 {
	kb, err := strconv.ParseInt(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	if err != nil {
		return 1 << 30
	}
	return kb << 10
}

// UseDisk moves the temporary directory to a disk if there is one, because an fsync on a tmpfs costs nothing.
func UseDisk() error {
	dirs := []string{os.TempDir(), "/var/tmp"}
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, cache)
	}

	for _, dir := range dirs {
		if kind, _ := FileSystem(dir); kind != "tmpfs" && writable(dir) {
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

// FsyncTime returns the median time of 100 writes of 4 KiB, each with fsync. It shows whether the disk really syncs.
func FsyncTime() string {
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
