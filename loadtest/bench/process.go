package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"seckill/test/env/servers"
)

// process is a server that this program started.
type process struct {
	*servers.Program

	// Host:port of metrics and profiles; empty if there is none.
	ops string
}

// stopTimeout is longer than the 20 s that a server may take to finish its requests.
const stopTimeout = 25 * time.Second

// startProcess starts a server, which belongs to the stack, and returns when it answers.
func (s *stack) startProcess(ctx context.Context, bin string, settings []string, args func(addr string) []string) (*process, error) {
	program, err := servers.RunProgram(ctx, bin, environment(settings), args)
	if err != nil {
		return nil, err
	}

	p := &process{Program: program}
	s.servers[p] = true
	return p, nil
}

// environment returns the environment of this program with its SECKILL_ variables replaced by settings.
func environment(settings []string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SECKILL_") })
	return append(env, settings...)
}
