package lock

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"
)

// A question is what was asked of a lock or of a semaphore.
type question struct {
	what  string // one of those below
	id    string // of the hold
	owner string // of the hold; its id, for locks that know no owners
	read  bool   // the shared side
	n     int64  // permits
}

const (
	take    = "take"
	refresh = "refresh" // renew
	free    = "free"
	end     = "end"  // of the lease; nobody asks for that
	undo    = "undo" // of a take that nobody heard of; a take that comes after it does nothing
)

// A reply is what the asker heard.
type reply struct {
	said    string
	token   uint64 // of a yes to a take
	crowded bool   // somebody waited, so that a no to a try is no wonder
}

const (
	yes     = "yes"
	no      = "no"
	never   = "never"   // no, and waiting would not help
	unheard = "unheard" // it may have been done; or it was done, or there was nothing to do
)

// A lockState is what there is to know about a read-write lock. A reentrant lock
// is one that nobody reads, and a mutex is one whose owners never come twice.
type lockState struct {
	writer string  // the owner, if somebody has the exclusive side
	writes holdSet // the writer's
	reads  holdSet
	undone holdSet // what was undone and is not taken yet
	fence  uint64  // the last writer's token; 0 if nobody has heard it
	last   uint64  // the greatest token that was heard
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, output any) (bool, any) {
		return state.(lockState).step(input.(question), output.(reply))
	},
	DescribeOperation: describe,
}

func describe(input, output any) string {
	q, a := input.(question), output.(reply)
	side := ""
	if q.read {
		side = " shared"
	}
	return fmt.Sprintf("%s%s %s of %s (%d): %s %d crowded=%v", q.what, side, q.id, q.owner, q.n, a.said, a.token, a.crowded)
}

// step says whether that can be answered in this state, and what comes next.
func (s lockState) step(q question, a reply) (bool, lockState) {
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
	case a.said == yes && !had, a.said == no && had:
		return false, s
	case q.what == free:
		return true, s.without(q.id)
	default:
		return true, s
	}
}

func (s lockState) take(q question, a reply) (bool, lockState) {
	fits := s.writer == q.owner || s.writer == "" && (q.read || s.reads == "")
	switch a.said {
	case no:
		return !fits || a.crowded, s
	case never:
		return !q.read && s.writer != q.owner && s.reads.of(q.owner), s
	case yes:
		return s.enter(q, a.token, fits)
	default: // unheard: it was done if it could be
		if !fits {
			return true, s
		}
		return s.enter(q, 0, true)
	}
}

// enter adds a hold. token is 0 if nobody heard it.
func (s lockState) enter(q question, token uint64, fits bool) (bool, lockState) {
	newWriter := !q.read && s.writer == ""
	switch {
	case !fits:
		return false, s
	case token == 0 && newWriter:
		s.fence = 0
	case token == 0: // whatever it is, it is no news
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

// A permitState is what there is to know about a semaphore.
type permitState struct {
	free   int64
	held   holdSet
	undone holdSet // what was undone and is not taken yet
}

// permitModel is of a semaphore that was set to n.
func permitModel(n int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return permitState{free: n} },
		Step: func(state, input, output any) (bool, any) {
			return state.(permitState).step(input.(question), output.(reply))
		},
		DescribeOperation: describe,
	}
}

func (s permitState) step(q question, a reply) (bool, permitState) {
	had, undone := s.held.has(q.id), s.undone.has(q.id)
	fits := s.free >= q.n
	switch {
	case q.what == take && undone:
		s.undone = s.undone.without(q.id)
	case q.what == take && (a.said == yes && !fits || a.said == no && fits && !a.crowded):
		return false, s
	case q.what == take && a.said != no && fits:
		s.free, s.held = s.free-q.n, s.held.with(q)
	case q.what == take:
	case q.what == undo && !had:
		s.undone = s.undone.with(q)
	case (q.what == refresh || q.what == free) && (a.said == yes && !had || a.said == no && had):
		return false, s
	case q.what != refresh && had:
		s.free, s.held = s.free+q.n, s.held.without(q.id)
	}
	return true, s
}

// A holdSet is the ids and owners of holds, each " id@owner;". It is a string
// for states to be comparable, and sorted for equal ones to be equal.
type holdSet string

func (s holdSet) with(q question) holdSet {
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
