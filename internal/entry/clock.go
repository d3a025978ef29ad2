package entry

import (
	"sync/atomic"
	"time"
)

// clock follows the clock of the database, so that rooms and their passes do not depend on the clocks of the servers.
// Between two readings it advances with the monotonic clock of this process. It is safe for concurrent use.
type clock struct {
	last atomic.Pointer[reading]
}

type reading struct {
	database time.Time
	taken    time.Time // with a monotonic reading
}

// set takes a reading of the database.
func (c *clock) set(database time.Time) {
	c.last.Store(&reading{database: database, taken: time.Now()})
}

// now returns the time. There has been a reading.
func (c *clock) now() time.Time {
	r := c.last.Load()
	return r.database.Add(time.Since(r.taken))
}
