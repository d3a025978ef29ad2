package entry

import (
	"sync/atomic"
	"time"

	"seckill/internal/domain"
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

// set takes a reading of the database that was requested at a time. The database made it between then and now, so a reading
// that took long says little: the clock moves only as far as the reading proves it wrong. After the first reading, and after a
// change of the database's clock, it is wrong by at most the time that the quickest reading since has taken. It has one caller
// at a time.
func (c *clock) set(database, requested time.Time) {
	taken := time.Now()
	if last := c.last.Load(); last != nil {
		latest := database.Add(taken.Sub(requested))
		if present := last.database.Add(taken.Sub(last.taken)); present.After(database) {
			database = domain.Earlier(present, latest)
		}
	}

	c.last.Store(&reading{database: database, taken: taken})
}

// now returns the time. There has been a reading.
func (c *clock) now() time.Time {
	r := c.last.Load()
	return r.database.Add(time.Since(r.taken))
}
