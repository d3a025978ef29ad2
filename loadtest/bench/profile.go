package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"seckill/loadtest/bench/loadgen"
)

// writeProfile writes a CPU profile of the server while it sells, outside of the rounds.
func (b *bench) writeProfile(ctx context.Context, st *stack, p *process) error {
	b.progress("  profiling the server for %s", b.opts.sizes.profile)
	done := make(chan error, 1)
	go func() { done <- fetchProfile(ctx, p, b.opts.sizes.profile, b.opts.profile) }()

	sell := buyers(st, sale{
		subject: "profile",
		servers: []*process{p},
		load:    loadgen.Load{Conns: b.opts.conns},
	})

	for {
		if _, err := sell(ctx, b.opts.seconds); err != nil {
			return errors.Join(err, <-done)
		}

		select {
		case err := <-done:
			return err
		default:
		}
	}
}

func fetchProfile(ctx context.Context, p *process, d time.Duration, path string) error {
	res, err := get(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.ops, int(d.Seconds())))
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // read to the end

	f, err := os.Create(path) //nolint:gosec // named by a flag
	if err != nil {
		return err
	}

	_, err = io.Copy(f, res.Body)
	return errors.Join(err, f.Close())
}
