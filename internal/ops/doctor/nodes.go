package doctor

import (
	"cmp"
	"context"
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
		named []string
		err   error
	}

	answers := loop.All(slices.Sorted(maps.Keys(all)), func(addr string) answer {
		err := all[addr].CkQuorum(ctx, master).Err()
		var named []string
		if err == nil {
			named, err = all[addr].GetMasterAddrByName(ctx, master).Result()
		}
		if err != nil {
			err = fmt.Errorf("the Sentinel %s: %w", addr, err)
		}
		return answer{named, err}
	})

	silent := 0
	var down, unable error
	var masters []string
	for _, a := range answers {
		switch {
		case a.err == nil:
			masters = append(masters, net.JoinHostPort(a.named[0], a.named[1]))
		case refused(a.err):
			unable = cmp.Or(unable, a.err)
		default:
			down = cmp.Or(down, a.err)
			silent++
		}
	}

	slices.Sort(masters)
	masters = slices.Compact(masters)

	const start = "start the Sentinels, and check SECKILL_REDIS_ADDRS, SECKILL_REDIS_SENTINEL and the firewalls in between"
	switch {
	case silent == len(all):
		return Unanswered(down, start)
	case unable != nil:
		return FromError(Fail, "check SECKILL_REDIS_SENTINEL, user and password in the URL of SECKILL_REDIS_ADDRS, "+
			"and start the missing Sentinels: SENTINEL CKQUORUM "+master, "", unable)
	case len(masters) > 1:
		return Bad(Fail, "SENTINEL REMOVE "+master+" and SENTINEL MONITOR on the Sentinel that is wrong, with the words of the others",
			"the Sentinels name different masters: %s. Each server uses the one that it is told first", strings.Join(masters, ", "))
	case down != nil:
		return FromError(Warn, start, "", down)
	case len(all) < 3:
		return Bad(Warn, "name three Sentinels on separate machines", "SECKILL_REDIS_ADDRS has %d: three survive the loss of one", len(all))
	}

	return Good("%d Sentinels name the same master, and can order a failover", len(all))
}

// LockNodes returns the check of SECKILL_LOCK_NODES as a whole. nodes is empty if the one Redis holds the locks.
func LockNodes(nodes []*redis.Client) Group {
	return Group{Checks: []Check{{Name: "locks.independent", Run: func(ctx context.Context) Result {
		return independence(nodes, loop.All(nodes, func(node *redis.Client) string {
			// Empty if the node does not answer, which redis.reachable reports, or refuses INFO.
			info, _ := node.Info(ctx, "server").Result()
			return parseInfo(info)["run_id"]
		}))
	}}}}
}

func independence(nodes []*redis.Client, runs []string) Result {
	if len(nodes) == 0 {
		return Good("the one Redis holds the user locks")
	}

	seen := map[string]string{}
	var silent []string
	for i, run := range runs {
		addr := nodes[i].Options().Addr
		if run == "" {
			silent = append(silent, addr)
			continue
		}

		if other, twice := seen[run]; twice {
			return Bad(Fail, "name separate servers in SECKILL_LOCK_NODES", "%s and %s are one server: no lock can ever be acquired", other, addr)
		}
		seen[run] = addr
	}

	all := len(nodes)
	switch {
	case all < 3:
		return Bad(Warn, "name three servers, or none to keep the locks in the one Redis", "SECKILL_LOCK_NODES has %d: Redlock needs 3 to survive a failure", all)
	case len(silent) > 0:
		return Bad(Skipped, "see redis.reachable, or confirm with the provider that each is a separate server",
			"these nodes do not answer INFO, so it cannot be checked that they are separate: %s", strings.Join(silent, ", "))
	}

	return Good("%d independent servers", all)
}
