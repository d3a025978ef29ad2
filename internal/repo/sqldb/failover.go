package sqldb

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
)

// failover makes all pools of a database leave a primary that another server has replaced. Each connection belongs to
// the generation in which it was opened, and is closed instead of used again in a later one. New connections resolve
// the name of the server again, or follow a proxy to another server.
//
// A generation is settled or unsettled. The first one is settled. The one that begins when a server is left is unsettled:
// the name or the proxy may still lead to the old server, which serves old data to reads without end. Each of its
// transactions therefore asks, before COMMIT, whether the server accepts writes. The first one that succeeds begins a
// settled generation, so that the connections to the old server are left as well.
//
// It is safe for concurrent use. SQLite stays in the first generation.
type failover struct {
	generation atomic.Int64
	// The last settled generation.
	settled atomic.Int64
}

func (f *failover) beganNow() int64 { return f.generation.Load() }

func (f *failover) unsettled(generation int64) bool { return generation != f.settled.Load() }

// leaveServer begins an unsettled generation after a server has refused a transaction.
func (f *failover) leaveServer() { f.generation.Add(1) }

// leaveSilent is leaveServer after a lost connection in a transaction of a generation, once in each. The server may be one
// that was frozen while another took over: it refuses nothing when it goes on.
func (f *failover) leaveSilent(generation int64) {
	f.generation.CompareAndSwap(generation, generation+1)
}

// settle begins a settled generation after the commit of a transaction of an unsettled one, unless a server was left
// meanwhile.
func (f *failover) settle(generation int64) {
	if f.unsettled(generation) && f.generation.CompareAndSwap(generation, generation+1) {
		f.settled.Store(generation + 1)
	}
}

// generationConn is a connection that its pool closes before or after its next use in a later generation.
type generationConn struct {
	mysqlConn
	opened   int64
	failover *failover
}

// ResetSession implements driver.SessionResetter.
func (c generationConn) ResetSession(ctx context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	return c.mysqlConn.ResetSession(ctx)
}

// IsValid implements driver.Validator.
func (c generationConn) IsValid() bool {
	return c.opened == c.failover.beganNow() && c.mysqlConn.IsValid()
}
