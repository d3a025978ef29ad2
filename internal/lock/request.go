package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// repeatWindow is how long a request with an unknown outcome is repeated. The server remembers its reply for three
// times as long (REMEMBER in request.lua). Only a server that stalls for the difference, with a repetition in its
// socket, executes one twice.
const repeatWindow = 10 * time.Second

// A request is a change that the server executes once, however often it is sent, because it remembers the reply by the
// request's id. The reply is a number.
type request struct {
	n      *named
	script *script
	keys   []string
	args   []any
}

func (n *named) request(s *script, extra ...any) *request {
	id := n.c.newID()
	return &request{
		n:      n,
		script: s,
		keys:   requestKeys(n.keys, id),
		args:   n.c.scriptArgs(id, 0, "", extra...),
	}
}

// do executes the request. It repeats the request after a lost reply until the reply arrives or ctx ends; after
// repeatWindow, or the end of ctx, the error matches ErrUncertain. If ctx ends before the request is sent, it is not sent.
func (r *request) do(ctx context.Context) (int64, error) {
	if ctx.Err() != nil {
		return 0, r.n.fail(waitEnded(ctx))
	}
	return r.repeat(ctx, notExecuted)
}

// doAnyway is do for a change on which other callers depend: if ctx ends, or has ended before, the request continues in
// the background. It is then repeated after every error, because the caller no longer can.
func (r *request) doAnyway(ctx context.Context) (int64, error) {
	type result struct {
		v   int64
		err error
	}

	final := func(err error) bool { return notExecuted(err) && ctx.Err() == nil }
	got, ok := await(ctx, func() result {
		v, err := r.repeat(context.WithoutCancel(ctx), final)
		return result{v, err}
	}, nil)
	if !ok {
		return 0, r.n.fail(fmt.Errorf("%w: %w", ErrUncertain, waitEnded(ctx)))
	}

	return got.v, got.err
}

// repeat sends the request until it is answered or ctx ends, for at most repeatWindow. It returns the first error as it is
// if that is final.
func (r *request) repeat(ctx context.Context, final func(error) bool) (int64, error) {
	window, cancel := context.WithTimeout(ctx, repeatWindow)
	defer cancel()

	for try := 0; ; try++ {
		v, err := r.n.run(ctx, r.script, r.keys, r.args)
		if err == nil {
			return v, nil
		}

		closed := errors.Is(err, ErrClosed)
		if try == 0 && (closed || final(err)) {
			return 0, r.n.fail(err)
		}

		// A script that broke off has not remembered its reply, so a repetition might change something again.
		if closed || brokeOff(err) || !sleep(window, backoff(try)) {
			if ctx.Err() != nil {
				err = waitEnded(ctx)
			}
			return 0, r.n.fail(fmt.Errorf("%w: %w", ErrUncertain, err))
		}
	}
}

// query runs a script that may be executed any number of times. Its reply is a number.
func (n *named) query(ctx context.Context, s *script) (int64, error) {
	if err := n.check(); err != nil {
		return 0, err
	}
	v, err := n.run(ctx, s, n.keys, n.c.scriptArgs("", 0, ""))
	if err != nil {
		return 0, n.fail(err)
	}
	return v, nil
}

func (n *named) fail(err error) error {
	return fmt.Errorf("lock: %s %q: %w", n.kind.name, n.name, err)
}

func (n *named) check() error {
	if n.name == "" {
		return errors.New("lock: a lock needs a name")
	}
	return nil
}

func (n *named) checkCount(count int64) error {
	if count < 1 || count > MaxPermits {
		return n.fail(fmt.Errorf("a count of %d, want 1 to %d", count, int64(MaxPermits)))
	}
	return n.check()
}

func (n *named) run(ctx context.Context, s *script, keys []string, args []any) (int64, error) {
	value, err := n.c.exec.run(ctx, s, keys, args)
	if err != nil {
		return 0, err
	}

	v, ok := value.(int64)
	if !ok {
		return 0, fmt.Errorf("unexpected reply %v", value)
	}
	return v, nil
}
