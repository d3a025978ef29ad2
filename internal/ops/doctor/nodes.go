package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"seckill/internal/kit/loop"
	"seckill/internal/kit/redisconn"
)

// Masters returns the addresses (host:port) of the masters of a cluster. It returns none if no node knows them. The caller
// then checks the nodes that it knows, which report their own errors.
func Masters(ctx context.Context, cluster redis.UniversalClient) []string {
	var mu sync.Mutex
	var masters []string
	_ = redisconn.EachMaster(ctx, cluster, func(_ context.Context, node redis.UniversalClient) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, node.(*redis.Client).Options().Addr)
		return nil
	})

	slices.Sort(masters)
	return masters
}

// Sentinels returns the check of the Sentinels, by address, that watch the master of this name.
func Sentinels(all map[string]*redis.SentinelClient, master string) Group {
	return Group{Checks: []Check{{Name: "redis.sentinels", Run: func(ctx context.Context) Result {
		return sentinelResult(ctx, all, master)
	}}}}
}

func sentinelResult(ctx context.Context, all map[string]*redis.SentinelClient, master string) Result {
	type answer struct {
		master      string
		err, quorum error
	}

	answers := loop.All(slices.Sorted(maps.Keys(all)), func(addr string) answer {
		at, err := all[addr].GetMasterAddrByName(ctx, master).Result()
		switch {
		case errors.Is(err, redis.Nil):
			return answer{err: fmt.Errorf("the Sentinel %s watches no master %q", addr, master)}
		case err != nil:
			return answer{err: fmt.Errorf("the Sentinel %s: %w", addr, err)}
		}

		a := answer{master: net.JoinHostPort(at[0], at[1])}
		if err := all[addr].CkQuorum(ctx, master).Err(); err != nil {
			a.quorum = fmt.Errorf("the Sentinel %s: %w", addr, err)
		}
		return a
	})

	var masters []string
	var down, noQuorum error
	for _, a := range answers {
		down = cmp.Or(down, a.err)
		noQuorum = cmp.Or(noQuorum, a.quorum)
		if a.err == nil && !slices.Contains(masters, a.master) {
			masters = append(masters, a.master)
		}
	}

	const start = "start the Sentinels, and check SECKILL_REDIS_ADDRS, SECKILL_REDIS_SENTINEL and the firewalls in between"
	switch {
	case len(masters) == 0:
		return Unanswered(down, start)
	case noQuorum != nil:
		return FromError(Fail, "start the missing Sentinels: SENTINEL CKQUORUM "+master, "no failover is possible: ", noQuorum)
	case len(masters) > 1:
		return Bad(Warn, "wait for the end of the failover; if it stays, SENTINEL RESET "+master,
			"the Sentinels name different masters: %s", strings.Join(masters, ", "))
	case down != nil:
		return FromError(Warn, start, "", down)
	case len(all) < 3:
		return Bad(Warn, "name three Sentinels on separate machines", "SECKILL_REDIS_ADDRS has %d: three survive the loss of one", len(all))
	}

	return Good("%d Sentinels agree on the master", len(all))
}

// LockNodes returns the check of SECKILL_LOCK_NODES as a whole. nodes is empty if the one Redis holds the locks.
func LockNodes(nodes []*redis.Client) Group {
	return Group{Checks: []Check{{Name: "locks.independent", Run: func(ctx context.Context) Result {
		return independence(nodes, loop.All(nodes, func(node *redis.Client) map[string]string {
			info, err := node.Info(ctx).Result()
			if refused(err) {
				// INFO is forbidden, the lock commands may not be.
				info = ""
				err = node.Ping(ctx).Err()
			}

			if err != nil {
				// redis.reachable reports it.
				return nil
			}

			return parseInfo(info)
		}))
	}}}}
}

// independence compares the INFO of the nodes, which is nil if a node does not answer, and empty if it refuses INFO.
func independence(nodes []*redis.Client, infos []map[string]string) Result {
	if len(nodes) == 0 {
		return Good("the one Redis holds the user locks")
	}

	answering := 0
	ran := map[string]string{}
	var silent []string
	for i, info := range infos {
		if info == nil {
			continue
		}

		answering++
		addr := nodes[i].Options().Addr
		id := info["run_id"]
		if id == "" {
			silent = append(silent, addr)
		} else if other, twice := ran[id]; twice {
			return Bad(Fail, "name separate servers in SECKILL_LOCK_NODES", "%s and %s are one server: no lock can ever be acquired", other, addr)
		}

		ran[id] = addr

		if info["role"] == "slave" {
			return Bad(Fail, "REPLICAOF NO ONE on it, or name another server in SECKILL_LOCK_NODES",
				"%s is a replica of %s:%s: Redlock needs independent servers", addr, info["master_host"], info["master_port"])
		}
	}

	all := len(nodes)
	switch {
	case answering*2 <= all:
		return Bad(Fail, "see redis.reachable of each node", "%d of %d nodes answer, which is no majority: lane lock sells nothing", answering, all)
	case all < 3:
		return Bad(Warn, "name three servers, or none to keep the locks in the one Redis", "SECKILL_LOCK_NODES has %d: Redlock needs 3 to survive a failure", all)
	case answering < all:
		return Bad(Warn, "see redis.reachable of each node", "%d of %d nodes answer", answering, all)
	case len(silent) > 0:
		return Bad(Skipped, "confirm with the provider that each is a separate server and no replica",
			"all nodes answer, but these refuse INFO, so their independence cannot be checked: %s", strings.Join(silent, ", "))
	}

	return Good("%d independent servers", all)
}
