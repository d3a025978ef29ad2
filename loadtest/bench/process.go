package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// process is a server that this program started.
type process struct {
	addr string // host:port of the API
	ops  string // host:port of metrics and profiles; empty if there is none
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has exited and was waited for
}

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 25 * time.Second // a server may take 20 s to finish its requests
)

// listensOn is part of the line that a server prints when it is ready.
const listensOn = " listens on http://"

// startProcess starts a server and returns when it listens. Its log is written to logPath.
func startProcess(ctx context.Context, env []string, logPath, bin string, args ...string) (*process, error) {
	log, err := os.Create(logPath) //nolint:gosec // a directory of this program
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process has its own descriptor
	// No context: stop ends the server after its clients.
	cmd := exec.Command(bin, args...) //nolint:gosec,noctx // built by this program
	cmd.Env, cmd.Stderr = environment(env), log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(out)
		for lines.Scan() { // until it exits: a full pipe would block the server
			if addr, ok := listenAddr(lines.Text()); ok && p.addr == "" {
				p.addr = addr
				close(ready)
			}
		}
		_ = cmd.Wait() // the log has the reason
	}()
	select {
	case <-ready:
		return p, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-p.done:
		err = errors.New("the process exited")
	case <-time.After(startTimeout):
		err = fmt.Errorf("not ready after %s", startTimeout)
	}
	p.stop()
	return nil, fmt.Errorf("start %s %s: %w; its log ends:\n%s", bin, strings.Join(args, " "), err, tail(logPath))
}

// environment returns the environment of this program with its SECKILL_ variables replaced by settings.
func environment(settings []string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SECKILL_") })
	return append(env, settings...)
}

// listenAddr extracts the address from the line that a server prints when it is ready.
func listenAddr(line string) (string, bool) {
	_, url, ok := strings.Cut(line, listensOn)
	addr, _, _ := strings.Cut(strings.TrimSpace(url), " ")
	return addr, ok
}

// stop interrupts the process, and kills it if it does not exit in time.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt) // fails if it has exited
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// tail returns the last lines of a log.
func tail(path string) string {
	text, err := os.ReadFile(path) //nolint:gosec // a directory of this program
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// tick is the unit of CPU time in /proc, 1/100 s on every Linux.
const tick = 10 * time.Millisecond

// cpuTime returns the user and system CPU time of a process, or 0 without /proc.
func cpuTime(pid int) time.Duration {
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
	user, _ := number(fields[11])
	system, _ := number(fields[12])
	return time.Duration(user+system) * tick
}

// residentMB returns the resident memory of a process in MiB, or 0 without /proc.
func residentMB(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) //nolint:gosec // a number
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kb, _ := strconv.ParseFloat(fields[0], 64)
	return kb / 1024
}
