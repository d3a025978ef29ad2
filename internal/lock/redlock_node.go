package lock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/redis/go-redis/v9"
)

// A nodeState is the state of one node in one session, and the redsync pool through which the session's commands reach
// the node. redsync uses it from one goroutine per command and joins them all.
type nodeState struct {
	node *executor
	key  keyState

	// all are the nodes of the lock.
	all []*executor

	// acquired is the reply to SET NX, last the reply to the last script.
	acquired vote
	last     vote

	// pending is a command whose outcome was not awaited. A delete must not overtake it.
	pending *call
}

// keyState is the state of a session's key on a node, as far as the replies tell.
type keyState int

const (
	keyPerhapsSet     keyState = iota // it may be there
	keyPerhapsDeleted                 // it may be there, or have been deleted: the reply to a delete was lost
	keyMissing                        // it is not there, and the session has not deleted it
	keyDeleted                        // the session has deleted it
)

// clear reports whether the session's key is certainly not on the node.
func (s keyState) clear() bool { return s == keyMissing || s == keyDeleted }

// jointScripts has redsync's scripts, all of which have one key, in the form that an executor sends: a *script for each
// *redsyncredis.Script.
var jointScripts sync.Map

func jointScript(s *redsyncredis.Script) *script {
	joint, known := jointScripts.Load(s)
	if !known {
		joint, _ = jointScripts.LoadOrStore(s, newJointScript(s.Src))
	}
	return joint.(*script)
}

// A vote is a node's reply: yes, no, or an error instead of one.
type vote struct {
	yes bool
	err error
}

// Get implements redsync's Pool.
func (s *nodeState) Get(ctx context.Context) (redsyncredis.Conn, error) {
	return &conn{ctx: ctx, state: s}, nil
}

// conn implements the methods of redsync's Conn that redsync.Mutex uses: SetNX to acquire, Eval to renew and to
// release.
type conn struct {
	redsyncredis.Conn // nil: no other method is called

	ctx   context.Context
	state *nodeState
}

var errSlow = fmt.Errorf("%w: the node did not answer the last one quickly", errNotSent)

// leftOut reports whether the node is slow, and the nodes that are not are a majority.
func (s *nodeState) leftOut() bool {
	quick := 0
	for _, n := range s.all {
		if !n.slow.Load() {
			quick++
		}
	}
	return quick > len(s.all)/2 && s.node.isSlow()
}

// Close implements Conn; there is nothing to close.
func (c *conn) Close() error { return nil }

// send sends a command, after the pending command of this node, if there is one. It skips a node that is slow or hangs, if
// the others suffice, or each holder would wait for it.
func (c *conn) send(sent *call) (any, error) {
	if c.state.leftOut() {
		return nil, errSlow
	}

	if last := c.state.pending; last != nil {
		select {
		case <-last.done:
			c.state.pending = nil
		case <-c.ctx.Done():
			return nil, fmt.Errorf("%w: %w", errNotSent, c.ctx.Err())
		}
	}

	if !c.state.node.wait(c.ctx, c.state.node.submit(sent)) {
		c.state.pending = sent
		return nil, c.ctx.Err()
	}

	if errors.Is(sent.err, redis.Nil) {
		return nil, nil
	}
	return sent.value, sent.err
}

// SetNX implements Conn.
func (c *conn) SetNX(key, value string, lease time.Duration) (bool, error) {
	s := c.state
	v, err := c.send(&call{plain: []any{"set", key, value, "px", lease.Milliseconds(), "nx"}})
	s.acquired = vote{yes: v != nil, err: err}

	s.key = keyPerhapsSet
	refused := err == nil && v == nil
	if refused || notExecuted(err) {
		s.key = keyMissing
	}
	return s.acquired.yes, err
}

// Eval implements Conn. redsync has two scripts: the delete has one argument, the value; the renewal has two, the value
// and the lease.
func (c *conn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	s := c.state
	isDelete := len(keysAndArgs) == 2
	if isDelete && s.key.clear() {
		return s.reply(s.key == keyDeleted), nil
	}

	key, _ := keysAndArgs[0].(string)
	v, err := c.send(&call{
		script: jointScript(script),
		keys:   []string{key},
		args:   keysAndArgs[1:],
	})
	s.last = vote{yes: v == int64(1), err: err}
	if !isDelete {
		return v, err
	}
	if err != nil {
		if !notExecuted(err) {
			s.key = keyPerhapsDeleted
		}
		return nil, err
	}

	// If nothing was there, an earlier delete, whose reply was lost, may have found the key.
	if s.last.yes || s.key == keyPerhapsDeleted {
		s.key = keyDeleted
	} else {
		s.key = keyMissing
	}
	return s.reply(s.key == keyDeleted), nil
}

func (s *nodeState) reply(yes bool) any {
	s.last = vote{yes: yes}
	if yes {
		return int64(1)
	}
	return int64(0)
}

// notExecuted reports whether err proves that the server did not execute the command, because it refused or never
// received it.
func notExecuted(err error) bool {
	if err == nil {
		return false
	}

	var refused redis.Error
	var op *net.OpError
	return errors.As(err, &refused) && !brokeOff(err) ||
		errors.As(err, &op) && op.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed) ||
		errors.Is(err, errNotSent) || errors.Is(err, errBusy) || errors.Is(err, ErrClosed)
}

// refusedWrites begin the errors that only the first change of a script has: a server that accepts it accepts the others,
// and keys of another type are found before it.
var refusedWrites = []string{"OOM ", "READONLY ", "NOREPLICAS ", "MISCONF ", "WRONGTYPE "}

// brokeOff reports whether err ended a script that may have changed something before: Redis names the line of the script
// then.
func brokeOff(err error) bool {
	text := err.Error()
	refused := func(code string) bool { return strings.Contains(text, code) }
	return strings.Contains(text, "user_script") && !slices.ContainsFunc(refusedWrites, refused)
}
