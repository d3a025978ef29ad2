package lock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/redis/go-redis/v9"
)

// A seat is one node in one session, and the redsync pool through which
// commands reach it. It remembers what the node is known to have. redsync
// writes it from one goroutine per command and joins them all.
type seat struct {
	node *node

	acquired vote // the answer to SET NX
	last     vote // the answer to the last script
	clear    bool // nothing of ours is there, for certain
	freed    bool // it was there, and we deleted it

	// unheard is set when a delete may have been executed without our hearing
	// of it; then finding nothing means that we deleted it.
	unheard bool

	// late is a command whose caller did not wait for its outcome. A delete must
	// not overtake it.
	late *call
}

// A node is one Redis of a RedLock.
type node struct {
	rdb  redis.UniversalClient
	exec *executor // shares round trips; nil: each command has its own

	mu      sync.Mutex
	scripts map[*redsyncredis.Script]*script // redsync's, in the executor's form
}

// script returns the form of redsync's script that the executor sends. All of
// redsync's scripts have one key and reply with a number.
func (n *node) script(s *redsyncredis.Script) *script {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.scripts[s]
	if known == nil {
		if n.scripts == nil {
			n.scripts = map[*redsyncredis.Script]*script{}
		}
		known = newJointScript(s.Src)
		n.scripts[s] = known
	}
	return known
}

// A vote is a node's answer: yes, no, or an error instead of one.
type vote struct {
	yes bool
	err error
}

// Get implements redsync's Pool.
func (s *seat) Get(ctx context.Context) (redsyncredis.Conn, error) {
	return &conn{ctx: ctx, seat: s}, nil
}

// conn implements what redsync.Mutex uses of redsync's Conn: SetNX to acquire,
// Eval to renew and to release.
type conn struct {
	redsyncredis.Conn // nil: nothing else is called
	ctx               context.Context
	seat              *seat
}

// Close implements Conn; there is nothing to close.
func (c *conn) Close() error { return nil }

// once is a command that go-redis sends no second time, whatever the client's
// MaxRetries: a repeated SET NX is refused because of the first.
type once struct{ *redis.Cmd }

// NoRetry tells go-redis.
func (once) NoRetry() bool { return true }

func (c *conn) send(args ...any) (any, error) {
	if c.seat.node.exec != nil {
		return c.deliver(&call{plain: args})
	}
	cmd := once{redis.NewCmd(c.ctx, args...)}
	_ = c.seat.node.rdb.Process(c.ctx, cmd) // the same error as in cmd
	v, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return v, err
}

// deliver sends a command that shares its round trip with others. It comes
// after the last one of this seat.
func (c *conn) deliver(sent *call) (any, error) {
	if last := c.seat.late; last != nil {
		select {
		case <-last.done:
			c.seat.late = nil
		case <-c.ctx.Done():
			return nil, fmt.Errorf("%w: %w", errNotSent, c.ctx.Err())
		}
	}
	if !c.seat.node.exec.deliver(c.ctx, sent) {
		c.seat.late = sent
		return nil, c.ctx.Err()
	}
	v, err := sent.value, sent.err
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return v, err
}

// SetNX implements Conn.
func (c *conn) SetNX(key, value string, lease time.Duration) (bool, error) {
	s := c.seat
	v, err := c.send("set", key, value, "px", lease.Milliseconds(), "nx")
	s.acquired = vote{yes: v != nil, err: err}
	s.clear = !s.acquired.yes && (err == nil || notExecuted(err))
	return s.acquired.yes, err
}

// Eval implements Conn. redsync has two scripts: the delete takes the value,
// the renewal takes the value and the lease.
func (c *conn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	s := c.seat
	isDelete := len(keysAndArgs) == 2
	if isDelete && s.clear {
		return s.answer(s.freed), nil
	}
	v, err := c.evalSha(script, keysAndArgs)
	s.last = vote{yes: v == int64(1), err: err}
	if !isDelete {
		return v, err
	}
	if err != nil {
		s.unheard = s.unheard || !notExecuted(err)
		return nil, err
	}
	s.clear, s.freed = true, s.last.yes || s.unheard
	return s.answer(s.freed), nil
}

// answer is a script's reply, noted as the node's last.
func (s *seat) answer(yes bool) any {
	s.last = vote{yes: yes}
	if yes {
		return int64(1)
	}
	return int64(0)
}

func (c *conn) evalSha(script *redsyncredis.Script, keysAndArgs []any) (any, error) {
	if c.seat.node.exec != nil {
		key, _ := keysAndArgs[0].(string) // redsync's name of the mutex
		return c.deliver(&call{script: c.seat.node.script(script), keys: []string{key}, args: keysAndArgs[1:]})
	}
	args := make([]any, 0, 6)
	args = append(args, "evalsha", script.Hash, script.KeyCount)
	args = append(args, keysAndArgs...)
	v, err := c.send(args...)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		args[0], args[1] = "eval", script.Src
		v, err = c.send(args...)
	}
	return v, err
}

// notExecuted says whether err proves that the server did not execute the
// command: it refused it, or it never got it.
func notExecuted(err error) bool {
	if err == nil {
		return false
	}
	var refused redis.Error
	var op *net.OpError
	return errors.As(err, &refused) ||
		errors.As(err, &op) && op.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed) ||
		errors.Is(err, errNotSent) || errors.Is(err, errBusy) || errors.Is(err, ErrClosed)
}
