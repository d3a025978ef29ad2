package servers

import (
	"context"
	"fmt"
	"net/http"
)

// Program is a process that serves HTTP. Its methods are safe for concurrent use.
type Program struct {
	*Process
	// Addr is host:port. Restart does not change it.
	Addr string
}

// RunProgram starts a program and returns when GET /healthz answers 200. ctx and StartTimeout bound only the start;
// the program runs until Stop. args returns the arguments of each start for the address to listen on.
func RunProgram(ctx context.Context, bin string, env []string, args func(addr string) []string) (*Program, error) {
	s := &Process{bin: bin, env: env, ready: programReady, args: func(s *Process) []string { return args(s.addr()) }}
	if err := s.run(ctx, nil); err != nil {
		return nil, err
	}

	return &Program{Process: s, Addr: s.addr()}, nil
}

func programReady(ctx context.Context, s *Process, _ *child) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr()+"/healthz", http.NoBody)
	if err != nil {
		return err
	}

	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}

	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("/healthz answers %d", res.StatusCode)
	}

	return nil
}
