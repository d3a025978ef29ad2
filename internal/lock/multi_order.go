package lock

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// An identity is the key and the server of a lock, by which Multis order locks. Locks of the same key and server are
// the same; the shared side of a read-write lock is included in the exclusive one.
type identity struct {
	key    string // of the lock, which begins with the prefix and the kind
	server string // addresses of the servers that hold it
	shared bool
}

// identified is implemented by the locks of this package that have an identity.
type identified interface{ identity() identity }

func (n *named) identity() identity {
	return identity{key: n.keys[0], server: serverOf(n.c.hub.rdb)}
}

func (s *rwSide) identity() identity {
	return identity{
		key: keysOf(s.c.prefix, s.kind.name, s.name)[0], server: serverOf(s.c.hub.rdb), shared: s.kind == rwReadKind,
	}
}

func (l *redLock) identity() identity {
	servers := make([]string, len(l.nodes))
	for i, rdb := range l.nodes {
		servers[i] = serverOf(rdb.rdb)
	}
	slices.Sort(servers)
	return identity{key: RedLockKey(l.name), server: strings.Join(servers, " ")}
}

func (p identity) same(other identity) bool { return p.key == other.key && p.server == other.server }

func (p identity) compare(other identity) int {
	switch {
	case !p.same(other):
		return cmp.Or(cmp.Compare(p.key, other.key), cmp.Compare(p.server, other.server))
	case p.shared == other.shared:
		return 0
	case p.shared:
		return 1
	default:
		return -1
	}
}

// serverOf returns the address of the Redis behind a client. Clients that discover the address themselves, through a
// sentinel, are identified by their pointer.
func serverOf(rdb redis.UniversalClient) string {
	switch c := rdb.(type) {
	case *redis.Client:
		if o := c.Options(); o.Addr != "FailoverClient" {
			return fmt.Sprintf("%s/%d", o.Addr, o.DB)
		}
	case *redis.ClusterClient:
		return joinSorted(c.Options().Addrs)
	case *redis.Ring:
		var addrs []string
		for _, addr := range c.Options().Addrs {
			addrs = append(addrs, addr)
		}
		return joinSorted(addrs)
	}
	return fmt.Sprintf("%p", rdb)
}

func joinSorted(addrs []string) string {
	return strings.Join(slices.Sorted(slices.Values(addrs)), ",")
}

// flatten replaces Multis by their parts.
func flatten(ls []Locker) ([]Locker, error) {
	var flat []Locker
	for i, l := range ls {
		if v := reflect.ValueOf(l); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			return nil, fmt.Errorf("lock: lock %d of a Multi is nil", i)
		}
		inner, ok := l.(*multi)
		switch {
		case !ok:
			flat = append(flat, l)
		case inner.err != nil:
			return nil, errors.Join(fmt.Errorf("lock: lock %d of a Multi cannot be used", i), inner.err)
		default:
			flat = append(flat, inner.locks...)
		}
	}
	return flat, nil
}

// inOrder returns the locks in the order of their identities, each identity once, followed by those that have none.
func inOrder(ls []Locker) []Locker {
	var known, foreign []Locker
	for _, l := range ls {
		if _, ok := l.(identified); ok {
			known = append(known, l)
		} else {
			foreign = append(foreign, l)
		}
	}
	at := func(l Locker) identity { return l.(identified).identity() }
	slices.SortStableFunc(known, func(a, b Locker) int { return at(a).compare(at(b)) })
	known = slices.CompactFunc(known, func(a, b Locker) bool { return at(a).same(at(b)) })
	return append(known, foreign...)
}

// namesOf returns the name of all locks together.
func namesOf(ls []Locker) string {
	names := make([]string, len(ls))
	for i, l := range ls {
		names[i] = fmt.Sprintf("%T", l)
		if o, ok := l.(identified); ok {
			names[i] = o.identity().key
		}
	}
	return strings.Join(names, ", ")
}
