package lock

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"
)

// An operation is one request to a lock or a semaphore.
type operation struct {
	what  string // one of those below
	id    string // of the hold
	owner string // of the hold; its id, for locks without owners
	read  bool   // the shared side
	n     int64  // permits
}

const (
	take    = "take"
	refresh = "refresh" // renew
	free    = "free"
	end     = "end"  // of the lease; not a request of a player
	undo    = "undo" // of a take whose reply was lost; a take that follows it does nothing
)

// A reply is the outcome that the player received.
type reply struct {
	outcome   string
	token     uint64 // of a successful take
	contended bool   // there were waiters, so a try may fail
}

const (
	yes        = "yes"
	no         = "no"
	never      = "never"      // no, and waiting would not help
	unanswered = "unanswered" // it may have been executed; or it was, or there was nothing to do
)

// A lockState is the state of a read-write lock. A reentrant lock is one without readers, and a mutex is one whose
// owners are all different.
type lockState struct {
	writer string  // the owner, if the exclusive side is held
	writes holdSet // the writer's
	reads  holdSet
	undone holdSet // undone and not taken yet
	fence  uint64  // the last writer's token; 0 if it is unknown
	last   uint64  // the greatest known token
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, output any) (bool, any) {
		return state.(lockState).step(input.(operation), output.(reply))
	},
	DescribeOperation: describe,
}

func describe(input, output any) string {
	q, a := input.(operation), output.(reply)
	side := ""
	if q.read {
		side = " shared"
	}
	return fmt.Sprintf("%s%s %s of %s (%d): %s %d contended=%v", q.what, side, q.id, q.owner, q.n, a.outcome, a.token, a.contended)
}

// step reports whether the operation can have that reply in this state, and returns the next state.
func (s lockState) step(q operation, a reply) (bool, lockState) {
	had := s.writes.has(q.id) || s.reads.has(q.id)
	switch {
	case q.what == take && s.undone.has(q.id):
		s.undone = s.undone.without(q.id)
		return true, s
	case q.what == take:
		return s.take(q, a)
	case q.what == undo && !had:
		s.undone = s.undone.with(q)
		return true, s
	case q.what == undo, q.what == end:
		return true, s.without(q.id)
	case a.outcome == yes && !had, a.outcome == no && had:
		return false, s
	case q.what == free:
		return true, s.without(q.id)
	default:
		return true, s
	}
}

func (s lockState) take(q operation, a reply) (bool, lockState) {
	fits := s.writer == q.owner || s.writer == "" && (q.read || s.reads == "")
	switch a.outcome {
	case no:
		return !fits || a.contended, s
	case never:
		return !q.read && s.writer != q.owner && s.reads.of(q.owner), s
	case yes:
		return s.enter(q, a.token, fits)
	default: // unanswered: it was executed if it could be
		if !fits {
			return true, s
		}
		return s.enter(q, 0, true)
	}
}

// enter adds a hold. token is 0 if it is unknown.
func (s lockState) enter(q operation, token uint64, fits bool) (bool, lockState) {
	newWriter := !q.read && s.writer == ""
	switch {
	case !fits:
		return false, s
	case token == 0 && newWriter:
		s.fence = 0
	case token == 0: // any token is possible, and none is learned
	case newWriter && token <= s.last, token < s.last, !newWriter && s.fence != 0 && token != s.fence:
		return false, s
	default:
		s.fence, s.last = token, token
	}
	if q.read {
		s.reads = s.reads.with(q)
	} else {
		s.writer, s.writes = q.owner, s.writes.with(q)
	}
	return true, s
}

func (s lockState) without(id string) lockState {
	s.writes, s.reads = s.writes.without(id), s.reads.without(id)
	if s.writes == "" {
		s.writer = ""
	}
	return s
}

// A permitState is the state of a semaphore.
type permitState struct {
	free   int64
	held   holdSet
	undone holdSet // undone and not taken yet
}

// permitModel models a semaphore that was set to n.
func permitModel(n int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return permitState{free: n} },
		Step: func(state, input, output any) (bool, any) {
			return state.(permitState).step(input.(operation), output.(reply))
		},
		DescribeOperation: describe,
	}
}

func (s permitState) step(q operation, a reply) (bool, permitState) {
	had, undone := s.held.has(q.id), s.undone.has(q.id)
	fits := s.free >= q.n
	switch {
	case q.what == take && undone:
		s.undone = s.undone.without(q.id)
	case q.what == take && (a.outcome == yes && !fits || a.outcome == no && fits && !a.contended):
		return false, s
	case q.what == take && a.outcome != no && fits:
		s.free, s.held = s.free-q.n, s.held.with(q)
	case q.what == take:
	case q.what == undo && !had:
		s.undone = s.undone.with(q)
	case (q.what == refresh || q.what == free) && (a.outcome == yes && !had || a.outcome == no && had):
		return false, s
	case q.what != refresh && had:
		s.free, s.held = s.free+q.n, s.held.without(q.id)
	}
	return true, s
}

// A holdSet is the ids and owners of holds, each " id@owner;". It is a string so that states are comparable, and sorted
// so that equal sets are equal.
type holdSet string

func (s holdSet) with(q operation) holdSet {
	hold := " " + q.id + "@" + q.owner + ";"
	rest := string(s)
	var before strings.Builder
	for rest != "" && rest < hold {
		first, after, _ := strings.Cut(rest, ";")
		before.WriteString(first + ";")
		rest = after
	}
	return holdSet(before.String() + hold + rest)
}

func (s holdSet) without(id string) holdSet {
	before, after, found := strings.Cut(string(s), " "+id+"@")
	if !found {
		return s
	}
	_, after, _ = strings.Cut(after, ";")
	return holdSet(before + after)
}

func (s holdSet) has(id string) bool   { return strings.Contains(string(s), " "+id+"@") }
func (s holdSet) of(owner string) bool { return strings.Contains(string(s), "@"+owner+";") }
