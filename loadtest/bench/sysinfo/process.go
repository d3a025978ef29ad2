package sysinfo

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc, 1/100 s on every Linux.
const tick = 10 * time.Millisecond

// CPUTime returns the user and system CPU time of a process, or 0 without /proc.
func CPUTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) //nolint:gosec // a number
	if err != nil {
		return 0
	}
	return parseStat(stat)
}

// parseStat returns the sum of utime and stime, the 14th and 15th field in proc(5). The second field is a name in
// brackets that may contain spaces.
func parseStat(stat []byte) time.Duration {
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte{' '})
	fields := bytes.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(string(fields[11]), 10, 64)
	system, _ := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * tick
}

// ResidentMiB returns the resident memory of a process in MiB, or 0 without /proc.
func ResidentMiB(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) //nolint:gosec // a number
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kb, _ := strconv.ParseFloat(fields[0], 64)
	return kb / 1024
}
