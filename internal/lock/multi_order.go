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

// A place is where a lock stands in the order in which Multis take locks. Two
// locks of one key and server are the same; what is shared of it comes with the
// whole.
type place struct {
	key    string // of the lock, which begins with the prefix and the kind
	server string // on which it is
	shared bool
}

// An ordered lock has a place.
type ordered interface{ place() place }

func (n *named) place() place {
	return place{key: n.keys[0], server: serverOf(n.c.hub.rdb)}
}

func (s *rwSide) place() place {
	return place{
		key: keysOf(s.c.prefix, s.kind.name, s.name)[0], server: serverOf(s.c.hub.rdb), shared: s.kind == rwReadKind,
	}
}

func (l *redLock) place() place {
	servers := make([]string, len(l.nodes))
	for i, rdb := range l.nodes {
		servers[i] = serverOf(rdb.rdb)
	}
	slices.Sort(servers)
	return place{key: RedLockKey(l.name), server: strings.Join(servers, " ")}
}

func (p place) same(other place) bool { return p.key == other.key && p.server == other.server }

func (p place) compare(other place) int {
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

// serverOf names the Redis behind a client by its address. Clients that find
// the address out by themselves, through a sentinel, are only the same as
// themselves.
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

// inOrder returns the locks in the order of their places, each place once, and
// then those that have none.
func inOrder(ls []Locker) []Locker {
	var known, foreign []Locker
	for _, l := range ls {
		if _, ok := l.(ordered); ok {
			known = append(known, l)
		} else {
			foreign = append(foreign, l)
		}
	}
	at := func(l Locker) place { return l.(ordered).place() }
	slices.SortStableFunc(known, func(a, b Locker) int { return at(a).compare(at(b)) })
	known = slices.CompactFunc(known, func(a, b Locker) bool { return at(a).same(at(b)) })
	return append(known, foreign...)
}

// namesOf is what the locks are called together.
func namesOf(ls []Locker) string {
	names := make([]string, len(ls))
	for i, l := range ls {
		names[i] = fmt.Sprintf("%T", l)
		if o, ok := l.(ordered); ok {
			names[i] = o.place().key
		}
	}
	return strings.Join(names, ", ")
}
