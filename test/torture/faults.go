package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/kit/loop"
	"seckill/test/env/servers"
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

// kindsOf returns the kinds of faults of a campaign.
func kindsOf(cfg Config) []kind {
	if cfg.Database == Galera {
		return slices.Concat(kinds, galeraKinds)
	}
	return slices.Concat(kinds, mariaDBKinds)
}

// faultTimeout bounds the failover and the return of a server. A node of Galera copies the data of another one first, by
// scripts for which a busy machine needs minutes.
const faultTimeout = 6 * time.Minute

func kill[P interface{ Kill() }](p P) error             { p.Kill(); return nil }
func restart[P interface{ Restart() error }](p P) error { return p.Restart() }
func freeze[P pausable](p P) error                      { return p.Pause() }
func resume[P pausable](p P) error                      { return p.Resume() }

// pausable is a process that SIGSTOP stops and SIGCONT resumes.
type pausable interface {
	Pause() error
	Resume() error
}

var galeraKinds = []kind{
	{"freeze of the database until another takes over", 0, 2 * time.Second, one, nameDatabase, func(s *system, _ int, hold time.Duration) error {
		return s.database.takeAway(freeze, resume, hold)
	}},
}

var mariaDBKinds = []kind{
	{"full disk of the database", 300 * time.Millisecond, 2 * time.Second, one, nameDatabase, func(s *system, _ int, hold time.Duration) error {
		return s.database.diskFull(hold)
	}},
}

// kinds are the kinds of faults of every campaign. A number selects the master of a cluster.
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
	{"flush Redis", 0, 0, countMasters, nameRedis, func(s *system, n int, _ time.Duration) error {
		return s.onMaster(n, func(ctx context.Context, node *servers.Redis) error {
			return onRedis(node, func(rdb *redis.Client) error { return rdb.FlushAll(ctx).Err() })
		})
	}},
	{"stop Redis", 100 * time.Millisecond, 900 * time.Millisecond, countMasters, nameRedis, func(s *system, n int, hold time.Duration) error {
		return s.onMaster(n, func(_ context.Context, node *servers.Redis) error { return pause(node, hold) })
	}},
	{"no memory for Redis", 100 * time.Millisecond, time.Second, countMasters, nameRedis, func(s *system, n int, hold time.Duration) error {
		return s.fillRedis(n, hold)
	}},
	{"failover of Redis", 0, 2 * time.Second, countMasters, nameRedis, func(s *system, n int, hold time.Duration) error {
		return s.failover(n, kill, restart, true, hold)
	}},
	{"freeze of Redis until its failover", 0, 2 * time.Second, countMasters, nameRedis, func(s *system, n int, hold time.Duration) error {
		return s.failover(n, freeze, resume, false, hold)
	}},
	{"kill database", 0, time.Second, one, nameDatabase, func(s *system, _ int, hold time.Duration) error {
		return s.database.takeAway(kill, restart, hold)
	}},
	{"stop database", 300 * time.Millisecond, 2 * time.Second, one, nameDatabase, func(s *system, _ int, hold time.Duration) error {
		return pause(s.database.nodes[s.database.writer], hold)
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

// failsOver reports whether faults of a kind replace a master of Redis.
func failsOver(kind string) bool {
	return slices.Contains([]string{"failover of Redis", "freeze of Redis until its failover"}, kind)
}

func one(*system) int            { return 1 }
func countServers(s *system) int { return len(s.servers) }
func countMasters(s *system) int { return len(s.redis.nodes()) / 2 }

func countLinks(s *system) int {
	links, _ := s.links()
	return len(links)
}

func nameServer(_ *system, n int) (name, resource string) {
	name = "server " + strconv.Itoa(n+1)
	return name, name
}

// All masters of Redis are one resource: a cluster that lost two of three would not elect others.
func nameRedis(_ *system, n int) (name, resource string) {
	return "Redis " + strconv.Itoa(n+1), "Redis"
}
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
func pause(p pausable, hold time.Duration) error {
	if err := p.Pause(); err != nil {
		return err
	}
	time.Sleep(hold)
	return p.Resume()
}

// schedule returns the faults of a seed, one after the other. Every kind occurs once in each round.
func schedule(seed uint64, kinds []kind) func() (Fault, kind) {
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
	kinds  []kind
	began  time.Time

	busy map[string]chan struct{} // by resource: has an element while a fault has it; used by run alone

	mu  sync.Mutex
	log []*Fault // that have ended
}

func newInjector(s *system, cfg Config, began time.Time) *injector {
	return &injector{system: s, seed: cfg.Seed, kinds: kindsOf(cfg), began: began, busy: map[string]chan struct{}{}}
}

// run injects a fault each faultInterval until ctx ends, and returns when all of them have ended. A fault waits until its
// target has recovered from the one before; those that still wait when ctx ends are left out after the first round.
func (i *injector) run(ctx context.Context) {
	next := schedule(i.seed, i.kinds)
	var running sync.WaitGroup
	defer running.Wait()
	for loop.Sleep(ctx, faultInterval) == nil {
		f, k := next()
		n := f.dice % k.targets(i.system)
		var resource string
		f.Target, resource = k.target(i.system, n)
		if i.busy[resource] == nil {
			i.busy[resource] = make(chan struct{}, 1)
		}
		busy := i.busy[resource]
		running.Go(func() {
			waiting := ctx
			if f.Number <= len(i.kinds) {
				waiting = context.WithoutCancel(ctx)
			}
			select {
			case busy <- struct{}{}:
			case <-waiting.Done():
				return
			}
			defer func() { <-busy }()
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
