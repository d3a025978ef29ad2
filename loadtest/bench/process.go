package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// process is a server that this program started.
type process struct {
	// Host:port of the API.
	addr string
	// Host:port of metrics and profiles; empty if there is none.
	ops string
	cmd *exec.Cmd
	// Closed when the process has exited and was waited for.
	done chan struct{}
}

const (
	startTimeout = 60 * time.Second

	// A server may take 20 s to finish its requests.
	stopTimeout = 25 * time.Second
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
	cmd.Env = environment(env)
	cmd.Stderr = log

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

		// Until it exits: a full pipe would block the server.
		for lines.Scan() {
			if addr, ok := listenAddr(lines.Text()); ok && p.addr == "" {
				p.addr = addr
				close(ready)
			}
		}

		// The log has the reason.
		_ = cmd.Wait()
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

func listenAddr(line string) (string, bool) {
	_, url, ok := strings.Cut(line, listensOn)
	addr, _, _ := strings.Cut(strings.TrimSpace(url), " ")
	return addr, ok
}

func (p *process) stop() {
	// Fails if it has exited.
	_ = p.cmd.Process.Signal(os.Interrupt)

	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func tail(path string) string {
	text, err := os.ReadFile(path) //nolint:gosec // a directory of this program
	if err != nil {
		return err.Error()
	}

	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
