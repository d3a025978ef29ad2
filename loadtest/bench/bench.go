package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// bench is one run of this program.
type bench struct {
	opts   options
	stdout io.Writer
	stderr io.Writer
	start  time.Time
	// Root directory of the module.
	root string
	// Temporary directory.
	dir string
	// Path of the seckill program.
	binary string
	// For scenarios without a private stack; nil until first use.
	shared *stack
	report report
}

func newBench(o options, stdout, stderr io.Writer) *bench {
	return &bench{
		opts:   o,
		stdout: stdout,
		stderr: stderr,
		start:  time.Now(),
		report: report{quick: o.quick},
	}
}

// run measures the chosen scenarios. If one fails, it continues with the others and returns the error at the end.
func (b *bench) run(ctx context.Context) (err error) {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()

	b.report.facts = describeMachine(ctx, b.root)

	var failed []error
	for _, s := range scenarios {
		if len(b.opts.only) > 0 && !slices.Contains(b.opts.only, s.name) {
			continue
		}

		b.progress("%s: %s", s.name, s.title)
		sec := &section{title: s.title}
		b.report.sections = append(b.report.sections, sec)

		err := s.run(b, ctx, sec)
		if b.shared != nil {
			if err != nil {
				for p := range b.shared.servers {
					b.progress("  %s:\n%s", p.Addr, p.LastLog())
				}
			}
			err = errors.Join(err, b.shared.stopServers())
		}

		if err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}

			b.progress("%s: FAILED: %v", s.name, err)
			sec.failed = err
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
		}
	}

	b.report.facts = append(b.report.facts, fact{"runs", fmt.Sprintf("%d rounds of at most %s or %s orders; the whole took %s",
		b.opts.rounds, b.opts.length, thousands(int64(b.opts.orders)), time.Since(b.start).Round(time.Second))})
	fmt.Fprint(b.stdout, b.report.summary())

	if !b.opts.quick && len(b.opts.only) == 0 {
		path := filepath.Join(b.root, "loadtest", "RESULTS.md")
		failed = append(failed, os.WriteFile(path, []byte(b.report.markdown()), 0o644)) //nolint:gosec // a public report
	}

	return errors.Join(failed...)
}

func (b *bench) prepare(ctx context.Context) error {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}

	b.root = filepath.Dir(string(bytes.TrimSpace(mod)))

	// An fsync in memory, where /tmp may be, costs nothing.
	if os.Getenv("TMPDIR") == "" {
		if err := os.Setenv("TMPDIR", "/var/tmp"); err != nil {
			return err
		}
	}

	if b.dir, err = os.MkdirTemp("", "seckill-bench-"); err != nil {
		return err
	}

	b.binary = filepath.Join(b.dir, "seckill")
	b.progress("building the server")

	build := exec.CommandContext(ctx, "go", "build", "-o", b.binary, "./cmd/seckill") //nolint:gosec // a directory of this program
	build.Dir = b.root

	// As a release is built, whose compiled packages it shares.
	build.Env = append(os.Environ(), "CGO_ENABLED=0")

	if out, err := build.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("build the server: %w\n%s", err, out), b.close())
	}

	return nil
}

func (b *bench) stack(ctx context.Context) (*stack, error) {
	if b.shared != nil {
		return b.shared, nil
	}

	s, err := b.newStack(ctx, "shared")
	if err != nil {
		return nil, err
	}
	b.shared = s

	servers, err := describeServers(ctx, s)
	b.report.facts = append(b.report.facts, servers...)
	return s, err
}

func (b *bench) newStack(ctx context.Context, name string) (*stack, error) {
	b.progress("starting MariaDB and Redis, seeding %d users", b.opts.orders)
	return newStack(ctx, b.binary, filepath.Join(b.dir, name), b.opts.orders, b.opts.buffer)
}

func (b *bench) close() error {
	var err error
	if b.shared != nil {
		err = b.shared.close()
	}

	return errors.Join(err, os.RemoveAll(b.dir)) //nolint:gosec // made by MkdirTemp
}

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(b.stderr, "%6.1fs  %s\n", time.Since(b.start).Seconds(), fmt.Sprintf(format, args...))
}
