package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Machine describes the machine that the program runs on. The zero value is not usable: see [ThisMachine].
type Machine struct {
	Root        fs.FS                  // root of the file system, for the limits of control groups
	Procs       int                    // GOMAXPROCS
	MemoryLimit int64                  // GOMEMLIMIT in bytes; math.MaxInt64 means none
	Files       func() (uint64, error) // limit of open files
}

// ThisMachine describes the local machine. It represents a server only if it runs in the same place with the same
// limits.
func ThisMachine() Machine {
	return Machine{
		Root: os.DirFS("/"), Procs: runtime.GOMAXPROCS(0), MemoryLimit: debug.SetMemoryLimit(-1), Files: OpenFiles,
	}
}

// Group returns the checks.
func (m Machine) Group() Group {
	return Group{Checks: []Check{
		{Name: "machine.cpu", Run: m.checkCPU},
		{Name: "machine.memory", Run: m.checkMemory},
		{Name: "machine.files", Run: m.checkFiles},
	}}
}

func (m Machine) checkCPU(context.Context) Result {
	limit, ok := m.cpuLimit()
	switch {
	case !ok:
		return Good("GOMAXPROCS %d, no control group limit", m.Procs)
	case float64(m.Procs) > math.Ceil(limit):
		return Bad(Warn, "unset GOMAXPROCS, so that Go follows the limit, or raise the limit of the container",
			"GOMAXPROCS %d, but the control group allows %.3g processors: the kernel stops all threads for most of each 100 ms", m.Procs, limit)
	}
	return Good("GOMAXPROCS %d, the control group allows %.3g processors", m.Procs, limit)
}

func (m Machine) checkMemory(context.Context) Result {
	limit, ok := m.memoryLimit()
	switch {
	case !ok:
		return Good("no control group limit")
	case m.MemoryLimit == math.MaxInt64:
		return Bad(Warn, fmt.Sprintf("GOMEMLIMIT=%dMiB (nine tenths of it)", limit/10*9>>20),
			"the control group allows %s and GOMEMLIMIT is not set: under load the kernel kills the process before the garbage collector runs", size(limit))
	case m.MemoryLimit > limit:
		return Bad(Warn, fmt.Sprintf("GOMEMLIMIT=%dMiB (nine tenths of it)", limit/10*9>>20),
			"GOMEMLIMIT is %s, but the control group allows %s", size(m.MemoryLimit), size(limit))
	}
	return Good("GOMEMLIMIT %s, the control group allows %s", size(m.MemoryLimit), size(limit))
}

// Thresholds of open files. Each buyer's connection and each event stream, of which there may be 20,000, takes one, as
// does each connection to the database and to Redis.
const (
	filesWarn = 32_768
	filesFail = 1024
)

func (m Machine) checkFiles(context.Context) Result {
	files, err := m.Files()
	if err != nil {
		return FromError(Skipped, "", "the limit of open files cannot be read: ", err)
	}
	const change = "ulimit -n 65536 before the start (LimitNOFILE= in systemd, ulimits: nofile in compose)"
	found := fmt.Sprintf("at most %d open files; 20,000 event streams and other connections need about %d", files, filesWarn)
	switch {
	case files < filesFail:
		return Bad(Fail, change, "%s", found)
	case files < filesWarn:
		return Bad(Warn, change, "%s", found)
	}
	return Good("at most %d open files", files)
}

// cpuLimit returns the number of processors that the control group (version 1 or 2) may use.
func (m Machine) cpuLimit() (limit float64, ok bool) {
	m.eachGroup("cpu", func(dir string) {
		var quota, period string
		if text, err := fs.ReadFile(m.Root, path.Join(dir, "cpu.max")); err == nil {
			quota, period, _ = strings.Cut(strings.TrimSpace(string(text)), " ")
		} else {
			quota, period = m.read(dir, "cpu.cfs_quota_us"), m.read(dir, "cpu.cfs_period_us")
		}
		q, badQuota := strconv.ParseFloat(quota, 64)
		p, badPeriod := strconv.ParseFloat(period, 64)
		if badQuota == nil && badPeriod == nil && q > 0 && p > 0 && (!ok || q/p < limit) {
			limit, ok = q/p, true
		}
	})
	return limit, ok
}

// unlimited is below every value that version 1 of control groups reports where there is no limit.
const unlimited = 1 << 60

func (m Machine) memoryLimit() (limit int64, ok bool) {
	m.eachGroup("memory", func(dir string) {
		for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
			n, err := strconv.ParseInt(m.read(dir, name), 10, 64) // fails for "max"
			if err == nil && n > 0 && n < unlimited && (!ok || n < limit) {
				limit, ok = n, true
			}
		}
	})
	return limit, ok
}

func (m Machine) read(dir, name string) string {
	text, _ := fs.ReadFile(m.Root, path.Join(dir, name)) // empty if it does not exist
	return strings.TrimSpace(string(text))
}

// eachGroup visits the directory of this process's control group and its parents, because the tightest limit applies.
// Inside a container often only the root is visible.
func (m Machine) eachGroup(controller string, visit func(dir string)) {
	for line := range strings.Lines(m.read("proc/self", "cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // "0::/path", "4:cpu,cpuacct:/path"
		if len(parts) != 3 {
			continue
		}
		mount := "sys/fs/cgroup"
		switch {
		case parts[1] == "":
		case strings.Contains(","+parts[1]+",", ","+controller+","):
			mount += "/" + controller
		default:
			continue
		}
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			visit(path.Join(mount, dir))
			if dir == "/" {
				break
			}
		}
	}
}
