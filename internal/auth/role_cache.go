package auth

import (
	"maps"
	"sync"
	"time"

	"seckill/internal/domain"
)

// roleAge is the age up to which a role from the database is used.
const roleAge = time.Second

// roleCache holds the roles of the sessions that used a route with a role within the last second. They are few. The zero
// value is an empty cache. It is safe for concurrent use.
type roleCache struct {
	mu sync.Mutex
	// By session id.
	roles map[string]cachedRole
}

type cachedRole struct {
	role domain.Role
	at   time.Time
}

func (r cachedRole) current(now time.Time) bool { return now.Sub(r.at) < roleAge }

func (c *roleCache) get(sessionID string, now time.Time) (domain.Role, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.roles[sessionID]
	return r.role, ok && r.current(now)
}

// set stores a role that was read at the time at, and drops the roles that are too old by then.
func (c *roleCache) set(sessionID string, role domain.Role, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.roles == nil {
		c.roles = map[string]cachedRole{}
	}
	maps.DeleteFunc(c.roles, func(_ string, r cachedRole) bool { return !r.current(at) })
	c.roles[sessionID] = cachedRole{role, at}
}
