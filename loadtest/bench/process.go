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
	addr string // host:port of what is measured
	ops  string // host:port of metrics and profiles; empty if it has none
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
}

const (
	startPatience = 60 * time.Second
	stopPatience  = 25 * time.Second // a server may take 20 s to finish what it has begun
)

// listensOn is how every server here says that it is ready.
const listensOn = " listens on http://"

// startProcess starts a server and returns when it has said where it listens. Its log goes to the file at logPath.
func startProcess(ctx context.Context, env []string, logPath, bin string, args ...string) (*process, error) {
	log, err := os.Create(logPath) //nolint:gosec // a folder of our own
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process has a descriptor of its own
	// No context: it is stopped in order, after those who talk to it.
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
		for lines.Scan() { // to the end: a full pipe would stop the server
			if addr, ok := listenAddr(lines.Text()); ok && p.addr == "" {
				p.addr = addr
				close(ready)
			}
		}
		_ = cmd.Wait() // how it ended is in its log
	}()
	select {
	case <-ready:
		return p, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-p.done:
		err = errors.New("it ended")
	case <-time.After(startPatience):
		err = fmt.Errorf("it was not ready after %s", startPatience)
	}
	p.stop()
	return nil, fmt.Errorf("start %s %s: %w; its log ends:\n%s", bin, strings.Join(args, " "), err, tail(logPath))
}

// environment is that of this program, but of the settings of seckill only those given.
func environment(settings []string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SECKILL_") })
	return append(env, settings...)
}

// listenAddr reads the line in which a server says that it is ready.
func listenAddr(line string) (string, bool) {
	_, url, ok := strings.Cut(line, listensOn)
	addr, _, _ := strings.Cut(strings.TrimSpace(url), " ")
	return addr, ok
}

// stop ends the process, with patience at first.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt) // fails when it has ended
	select {
	case <-p.done:
	case <-time.After(stopPatience):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// tail returns the last lines of a log.
func tail(path string) string {
	text, err := os.ReadFile(path) //nolint:gosec // a folder of our own
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// tick is the unit of CPU time in /proc: every Linux has 100 a second there.
const tick = 10 * time.Millisecond

// cpuTime is what the process has used, user and system. Without /proc it is 0, and the report shows no CPU times.
func cpuTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) //nolint:gosec // a number
	if err != nil {
		return 0
	}
	return parseStat(stat)
}

// parseStat reads utime and stime, the 14th and 15th field of proc(5). The second is a name in brackets, which may
// have spaces.
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

// residentMB is the process's memory in MiB; 0 without /proc.
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
