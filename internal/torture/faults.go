package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/loop"
	"seckill/internal/servers"
)

// Fault is a fault of the schedule with its outcome.
type Fault struct {
	Number int           `json:"number"` // from 1
	Kind   string        `json:"kind"`
	Target string        `json:"target"`
	Hold   time.Duration `json:"hold_ns"` // planned duration; the recovery of the target follows
	// Begin and End are times since the begin of the campaign. End is after the recovery of the target.
	Begin time.Duration `json:"begin_ns"`
	End   time.Duration `json:"end_ns"`
	// Pause is the longest time without an order or a final refusal for any buyer that overlaps the fault.
	Pause time.Duration `json:"pause_ns"`
	Error string        `json:"error,omitempty"` // of the injection

	dice int // selects the target
}

// kind is a kind of fault.
type kind struct {
	name     string
	min, max time.Duration // of Hold
	// of returns the number of possible targets, names one of them, and names the resource that it occupies.
	targets func(s *system) int
	target  func(s *system, n int) (name, resource string)
	inject  func(s *system, n int, hold time.Duration) error
}

// stopTimeout bounds a graceful stop of a server, which the server itself bounds to 20 s and the drain.
const stopTimeout = 25 * time.Second

// maxClockOffset bounds how wrong the clock of a server is, in both directions.
const maxClockOffset = 5 * time.Minute

// kinds are all kinds of faults.
var kinds = []kind{
	{"kill server", 0, time.Second, countServers, nameServer, func(s *system, n int, hold time.Duration) error {
		s.servers[n].Kill()
		time.Sleep(hold)
		return s.startAgain(s.servers[n])
	}},
	{"stop server", 300 * time.Millisecond, 3 * time.Second, countServers, nameServer, func(s *system, n int, hold time.Duration) error {
		return pause(s.servers[n], hold)
	}},
	{"restart server", 0, 500 * time.Millisecond, countServers, nameServer, func(s *system, n int, hold time.Duration) error {
		err := s.servers[n].Terminate(stopTimeout)
		time.Sleep(hold)
		return errors.Join(err, s.startAgain(s.servers[n]))
	}},
	// The hold is not a duration here: its distance from the middle is the offset of the clock.
	{"jump of a server's clock", 0, 2 * maxClockOffset, countServers, nameServer, func(s *system, n int, hold time.Duration) error {
		s.servers[n].Kill()
		s.servers[n].clock.Store(int64(hold - maxClockOffset))
		return s.startAgain(s.servers[n])
	}},
	{"flush Redis", 0, 0, one, nameRedis, func(s *system, _ int, _ time.Duration) error {
		return s.onMaster(func(ctx context.Context, rdb *redis.Client, _ int) error { return rdb.FlushAll(ctx).Err() })
	}},
	{"stop Redis", 100 * time.Millisecond, 900 * time.Millisecond, one, nameRedis, func(s *system, _ int, hold time.Duration) error {
		return s.onMaster(func(_ context.Context, _ *redis.Client, node int) error { return pause(s.sentinel.Nodes[node], hold) })
	}},
	{"failover of Redis", 0, 0, one, nameRedis, func(s *system, _ int, _ time.Duration) error { return s.failover() }},
	{"kill database", 0, time.Second, one, nameDatabase, func(s *system, _ int, hold time.Duration) error {
		s.mariadb.Kill()
		time.Sleep(hold)
		return s.mariadb.Restart()
	}},
	{"stop database", 300 * time.Millisecond, 2 * time.Second, one, nameDatabase, func(s *system, _ int, hold time.Duration) error {
		return pause(s.mariadb, hold)
	}},
	{"cut connections", 0, 0, countLinks, nameLink, func(s *system, n int, _ time.Duration) error {
		s.link(n).Cut()
		return nil
	}},
	{"delay replies by 50 ms", 500 * time.Millisecond, 2 * time.Second, countLinks, nameLink, func(s *system, n int, hold time.Duration) error {
		s.link(n).Delay(50 * time.Millisecond)
		time.Sleep(hold)
		s.link(n).Delay(0)
		return nil
	}},
	{"drop replies", 200 * time.Millisecond, time.Second, countLinks, nameLink, func(s *system, n int, hold time.Duration) error {
		s.link(n).Inject(servers.DropReply, "", 20)
		time.Sleep(hold)
		s.link(n).Inject(servers.None, "", 0)
		return nil
	}},
}

// losesRedis reports whether faults of a kind lose data of Redis.
func losesRedis(kind string) bool { return kind == "flush Redis" || kind == "failover of Redis" }

func one(*system) int            { return 1 }
func countServers(s *system) int { return len(s.servers) }

func countLinks(s *system) int {
	links, _ := s.links()
	return len(links)
}

func nameServer(_ *system, n int) (name, resource string) {
	name = "server " + strconv.Itoa(n+1)
	return name, name
}

func nameRedis(*system, int) (name, resource string)    { return "Redis", "Redis" }
func nameDatabase(*system, int) (name, resource string) { return "database", "database" }

func nameLink(s *system, n int) (name, resource string) {
	_, names := s.links()
	return names[n], "link to " + names[n]
}

func (s *system) link(n int) *servers.Proxy {
	links, _ := s.links()
	return links[n]
}

// pause stops a process with SIGSTOP for some time.
func pause(p interface {
	Pause() error
	Resume() error
}, hold time.Duration) error {
	if err := p.Pause(); err != nil {
		return err
	}
	time.Sleep(hold)
	return p.Resume()
}

// onMaster calls f with a client of the Redis master and the index of its node.
func (s *system) onMaster(f func(ctx context.Context, rdb *redis.Client, node int) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	node, err := s.sentinel.Master(ctx)
	if err != nil {
		return err
	}
	return s.onRedis(node, func(rdb *redis.Client) error { return f(ctx, rdb, node) })
}

// failover kills the Redis master, waits until its replica is promoted, and adds the old master as the new replica.
func (s *system) failover() error {
	ctx, cancel := context.WithTimeout(context.Background(), servers.StartTimeout)
	defer cancel()
	old, err := s.sentinel.Master(ctx)
	if err != nil {
		return err
	}
	s.sentinel.Nodes[old].Kill()
	err = s.sentinel.Promoted(ctx, 1-old)
	if err := errors.Join(err, s.sentinel.Nodes[old].Restart()); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.sentinel.Nodes[1-old].Announced)
	if err != nil {
		return err
	}
	return s.onRedis(old, func(rdb *redis.Client) error {
		if err := rdb.ReplicaOf(ctx, host, port).Err(); err != nil {
			return err
		}
		for rdb.InfoMap(ctx, "replication").Item("Replication", "master_link_status") != "up" {
			if err := loop.Sleep(ctx, 20*time.Millisecond); err != nil {
				return fmt.Errorf("the old master does not replicate: %w", err)
			}
		}
		return nil
	})
}

// schedule returns the faults of a seed, one after the other. Every kind occurs once in each round.
func schedule(seed uint64) func() (Fault, kind) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var round []int
	number := 0
	return func() (Fault, kind) {
		if len(round) == 0 {
			round = rng.Perm(len(kinds))
		}
		k := kinds[round[0]]
		round = round[1:]
		number++
		hold := k.min
		if k.max > k.min {
			hold += time.Duration(rng.Int64N(int64(k.max - k.min))).Round(time.Millisecond)
		}
		return Fault{Number: number, Kind: k.name, Hold: hold, dice: rng.IntN(1 << 20)}, k
	}
}

// injector injects the faults of a schedule.
type injector struct {
	system *system
	seed   uint64
	began  time.Time

	busy map[string]*sync.Mutex // by resource; used by run alone

	mu  sync.Mutex
	log []*Fault // that have ended
}

func newInjector(s *system, seed uint64, began time.Time) *injector {
	return &injector{system: s, seed: seed, began: began, busy: map[string]*sync.Mutex{}}
}

// run injects a fault each faultInterval until ctx ends, and returns when all of them have ended. A fault waits until its
// target has recovered from the one before.
func (i *injector) run(ctx context.Context) {
	next := schedule(i.seed)
	var running sync.WaitGroup
	defer running.Wait()
	for loop.Sleep(ctx, faultInterval) == nil {
		f, k := next()
		n := f.dice % k.targets(i.system)
		var resource string
		f.Target, resource = k.target(i.system, n)
		if i.busy[resource] == nil {
			i.busy[resource] = &sync.Mutex{}
		}
		busy := i.busy[resource]
		running.Go(func() {
			busy.Lock()
			defer busy.Unlock()
			f.Begin = time.Since(i.began)
			if err := k.inject(i.system, n, f.Hold); err != nil {
				f.Error = err.Error()
			}
			f.End = time.Since(i.began)
			i.mu.Lock()
			defer i.mu.Unlock()
			i.log = append(i.log, &f)
		})
	}
}

// injected returns the number of faults that have ended.
func (i *injector) injected() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.log)
}
