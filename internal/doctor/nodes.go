package doctor

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Masters asks the seeds for the masters of their cluster, host:port. It returns none if nobody tells: then the seeds are
// looked at, and each says for itself what is wrong.
func Masters(ctx context.Context, seeds []*redis.Client) []string {
	told := make([][]redis.ClusterSlot, len(seeds))
	var wg sync.WaitGroup
	for i, seed := range seeds {
		wg.Go(func() { told[i], _ = seed.ClusterSlots(ctx).Result() }) //nolint:staticcheck // Redis 6.2 has no CLUSTER SHARDS
	}
	wg.Wait()
	var masters []string
	for _, slots := range told {
		for _, s := range slots {
			// A node that does not know its own address tells none.
			if len(s.Nodes) > 0 && !strings.HasPrefix(s.Nodes[0].Addr, ":") && !slices.Contains(masters, s.Nodes[0].Addr) {
				masters = append(masters, s.Nodes[0].Addr)
			}
		}
	}
	return masters
}

// LockNodes looks at the servers of SECKILL_LOCK_NODES as a whole; without any, the one Redis has the locks.
func LockNodes(nodes map[string]*redis.Client) Group {
	return Group{Checks: []Check{{Name: "locks.independent", Run: func(ctx context.Context) Result {
		return independence(ctx, nodes)
	}}}}
}

func independence(ctx context.Context, nodes map[string]*redis.Client) Result {
	if len(nodes) == 0 {
		return Good("the one Redis has the user locks")
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	infos := map[string]map[string]string{}
	for addr, node := range nodes {
		wg.Go(func() {
			info, err := node.Info(ctx).Result()
			if refused(err) {
				info, err = "", node.Ping(ctx).Err() // it may do its work and not say who it is
			}
			if err != nil {
				return // redis.reachable tells of it
			}
			mu.Lock()
			defer mu.Unlock()
			infos[addr] = parseInfo(info)
		})
	}
	wg.Wait()
	return independenceResult(infos, len(nodes))
}

// independenceResult compares the nodes that answered, of so many. One that tells nothing has an empty map.
func independenceResult(infos map[string]map[string]string, all int) Result {
	addrs := make([]string, 0, len(infos))
	for addr := range infos {
		addrs = append(addrs, addr)
	}
	slices.Sort(addrs)
	ran := map[string]string{}
	var silent []string
	for _, addr := range addrs {
		id := infos[addr]["run_id"]
		if id == "" {
			silent = append(silent, addr)
		} else if other, twice := ran[id]; twice {
			return Bad(Fail, "name servers of their own in SECKILL_LOCK_NODES", "%s and %s are one server: no lock could ever be had", other, addr)
		}
		ran[id] = addr
		if infos[addr]["role"] == "slave" {
			return Bad(Fail, "REPLICAOF NO ONE on it, or another server in SECKILL_LOCK_NODES",
				"%s is a replica of %s:%s: Redlock needs servers that know nothing of each other", addr, infos[addr]["master_host"], infos[addr]["master_port"])
		}
	}
	switch {
	case len(infos)*2 <= all:
		return Bad(Fail, "see redis.reachable of each", "%d of %d nodes answer, which is no majority: nothing is sold in the lane lock", len(infos), all)
	case all < 3:
		return Bad(Warn, "name three servers, or none: then the one Redis has the locks", "%d lock node: Redlock begins to survive failures at 3", all)
	case len(infos) < all:
		return Bad(Warn, "see redis.reachable of each", "%d of %d nodes answer", len(infos), all)
	case len(silent) > 0:
		return Result{Status: Skipped, Found: "all nodes answer, but these do not tell who they are (INFO), so that nobody knows whether they are independent: " +
			strings.Join(silent, ", "), Change: "ask the provider whether each is a server of its own, and no replica"}
	}
	return Good("%d servers that know nothing of each other", all)
}
