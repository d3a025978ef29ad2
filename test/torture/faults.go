package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"seckill/internal/kit/loop"
	"seckill/test/env/servers"
)

// Fault is a fault of the schedule with its outcome.
type Fault struct {
	// From 1.
	Number int    `json:"number"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
	// Planned duration; the recovery of the target follows.
	Hold time.Duration `json:"hold_ns"`
	// Begin and End are times since the begin of the campaign. End is after the recovery of the target.
	Begin time.Duration `json:"begin_ns"`
	End   time.Duration `json:"end_ns"`
	// Pause is the longest time without an order or a final refusal for any buyer that overlaps the fault.
	Pause time.Duration `json:"pause_ns"`
	// Of the injection.
	Error string `json:"error,omitempty"`

	// Selects the target.
	dice int
}

// kind is a kind of fault.
type kind struct {
	name string
	// Bounds of Hold.
	min time.Duration
	max time.Duration
	// Where it may occur.
	of place
	// n selects one of the targets.
	inject func(s *system, n int, hold time.Duration) error
}

// place is a kind of targets of faults.
type place struct {
	what string
	// How many targets there are.
	count func(s *system) int
	// Names a target.
	name func(s *system, n int) string
	// Whether only one of the targets has a fault at a time. Otherwise each has one at a time.
	shared bool
}

var (
	aServer = place{
		what:  "server",
		count: func(s *system) int { return len(s.servers) },
		name:  func(_ *system, n int) string { return "server " + strconv.Itoa(n+1) },
	}
	aLink = place{
		what:  "link",
		count: func(s *system) int { return len(s.links()) },
		name:  func(s *system, n int) string { return s.links()[n].name },
	}
	// A cluster that lost two of three masters would not elect others.
	aMaster = place{
		what:   "Redis",
		count:  func(s *system) int { return len(s.redis.nodes) / 2 },
		name:   func(_ *system, n int) string { return "Redis " + strconv.Itoa(n+1) },
		shared: true,
	}
	theDatabase = place{
		what:  "database",
		count: func(*system) int { return 1 },
		name:  func(*system, int) string { return "database" },
	}
)

// stopTimeout bounds a graceful stop of a server, which the server itself bounds to 20 s and the drain.
const stopTimeout = 25 * time.Second

// maxClockOffset bounds how wrong the clock of a server is, in both directions.
const maxClockOffset = 5 * time.Minute

// faultTimeout bounds the failover and the return of a server. A node of Galera copies the data of another one first, by
// scripts for which a busy machine needs minutes.
const faultTimeout = 6 * time.Minute

func kindsOf(cfg Config) []kind {
	if cfg.Database == galera {
		return append(slices.Clone(kinds), frozenNode)
	}

	return append(slices.Clone(kinds), fullDisk)
}

var frozenNode = kind{
	name: "freeze of the database until another takes over",
	max:  2 * time.Second,
	of:   theDatabase,
	inject: func(s *system, _ int, hold time.Duration) error {
		return s.database.takeAway((*servers.Process).Pause, (*servers.Process).Resume, hold)
	},
}

var fullDisk = kind{
	name: "full disk of the database",
	min:  300 * time.Millisecond,
	max:  2 * time.Second,
	of:   theDatabase,
	inject: func(s *system, _ int, hold time.Duration) error {
		return s.database.diskFull(hold)
	},
}

// kinds are the kinds of faults of every campaign. A number selects the master of a cluster.
var kinds = []kind{
	{
		name: "kill server",
		max:  time.Second,
		of:   aServer,
		inject: func(s *system, n int, hold time.Duration) error {
			s.servers[n].Kill()
			time.Sleep(hold)
			return s.startAgain(s.servers[n])
		},
	},
	{
		name: "stop server",
		min:  300 * time.Millisecond,
		max:  3 * time.Second,
		of:   aServer,
		inject: func(s *system, n int, hold time.Duration) error {
			return pause(s.servers[n].Process, hold)
		},
	},
	{
		name: "restart server",
		max:  500 * time.Millisecond,
		of:   aServer,
		inject: func(s *system, n int, hold time.Duration) error {
			err := s.servers[n].Terminate(stopTimeout)
			time.Sleep(hold)
			return errors.Join(err, s.startAgain(s.servers[n]))
		},
	},
	{
		// The hold is not a duration here: its distance from the middle is the offset of the clock.
		name: "jump of a server's clock",
		max:  2 * maxClockOffset,
		of:   aServer,
		inject: func(s *system, n int, hold time.Duration) error {
			s.servers[n].Kill()
			return errors.Join(s.servers[n].setClock(hold-maxClockOffset), s.startAgain(s.servers[n]))
		},
	},
	{
		name: "flush Redis",
		of:   aMaster,
		inject: func(s *system, n int, _ time.Duration) error {
			return s.onMaster(n, func(ctx context.Context, node *servers.Redis) error {
				return node.Use(func(rdb servers.RedisClient) error { return rdb.FlushAll(ctx).Err() })
			})
		},
	},
	{
		name: "stop Redis",
		min:  100 * time.Millisecond,
		max:  900 * time.Millisecond,
		of:   aMaster,
		inject: func(s *system, n int, hold time.Duration) error {
			return s.onMaster(n, func(_ context.Context, node *servers.Redis) error { return pause(node.Process, hold) })
		},
	},
	{
		name:   "no memory for Redis",
		min:    100 * time.Millisecond,
		max:    time.Second,
		of:     aMaster,
		inject: (*system).fillRedis,
	},
	{
		name: "failover of Redis",
		max:  2 * time.Second,
		of:   aMaster,
		inject: func(s *system, n int, hold time.Duration) error {
			return s.failover(n, kill, (*servers.Process).Restart, true, hold)
		},
	},
	{
		name: "freeze of Redis until its failover",
		max:  2 * time.Second,
		of:   aMaster,
		inject: func(s *system, n int, hold time.Duration) error {
			return s.failover(n, (*servers.Process).Pause, (*servers.Process).Resume, false, hold)
		},
	},
	{
		name: "kill database",
		max:  time.Second,
		of:   theDatabase,
		inject: func(s *system, _ int, hold time.Duration) error {
			return s.database.takeAway(kill, (*servers.Process).Restart, hold)
		},
	},
	{
		name: "stop database",
		min:  300 * time.Millisecond,
		max:  2 * time.Second,
		of:   theDatabase,
		inject: func(s *system, _ int, hold time.Duration) error {
			return pause(s.database.nodes[s.database.writer].Process, hold)
		},
	},
	{
		name: "cut connections",
		of:   aLink,
		inject: func(s *system, n int, _ time.Duration) error {
			s.links()[n].proxy.Cut()
			return nil
		},
	},
	{
		name: "delay replies by 50 ms",
		min:  500 * time.Millisecond,
		max:  2 * time.Second,
		of:   aLink,
		inject: func(s *system, n int, hold time.Duration) error {
			s.links()[n].proxy.Delay(50 * time.Millisecond)
			time.Sleep(hold)
			s.links()[n].proxy.Delay(0)
			return nil
		},
	},
	{
		name: "drop replies",
		min:  200 * time.Millisecond,
		max:  time.Second,
		of:   aLink,
		inject: func(s *system, n int, hold time.Duration) error {
			s.links()[n].proxy.Inject(servers.DropReply, "", 20)
			time.Sleep(hold)
			s.links()[n].proxy.Inject(servers.None, "", 0)
			return nil
		},
	},
}

func failsOver(kind string) bool {
	return slices.Contains([]string{"failover of Redis", "freeze of Redis until its failover"}, kind)
}

func kill(p *servers.Process) error {
	p.Kill()
	return nil
}

func pause(p *servers.Process, hold time.Duration) error {
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

		f := Fault{
			Number: number,
			Kind:   k.name,
			Hold:   hold,
			dice:   rng.IntN(1 << 20),
		}

		return f, k
	}
}

// injector injects the faults of a schedule.
type injector struct {
	system *system
	seed   uint64
	kinds  []kind
	began  time.Time

	// By resource: has an element while a fault has it; used by run alone.
	busy map[string]chan struct{}

	mu sync.Mutex
	// Faults that have ended.
	log []*Fault
}

func newInjector(s *system, cfg Config, began time.Time) *injector {
	return &injector{
		system: s,
		seed:   cfg.Seed,
		kinds:  kindsOf(cfg),
		began:  began,
		busy:   map[string]chan struct{}{},
	}
}

// run injects a fault each faultInterval until ctx ends, and returns when all of them have ended. A fault waits until its
// target has recovered from the one before; those that still wait when ctx ends are left out after the first round.
func (i *injector) run(ctx context.Context) {
	next := schedule(i.seed, i.kinds)
	var running sync.WaitGroup
	defer running.Wait()

	for loop.Sleep(ctx, faultInterval) == nil {
		f, k := next()
		n := f.dice % k.of.count(i.system)
		f.Target = k.of.name(i.system, n)
		busy := i.resource(k.of, f.Target)

		waiting := ctx
		if f.Number <= len(i.kinds) {
			waiting = context.WithoutCancel(ctx)
		}

		running.Go(func() {
			select {
			case busy <- struct{}{}:
			case <-waiting.Done():
				return
			}
			defer func() { <-busy }()

			i.inject(&f, k, n)
		})
	}
}

func (i *injector) resource(of place, target string) chan struct{} {
	name := of.what
	if !of.shared {
		name += " " + target
	}

	if i.busy[name] == nil {
		i.busy[name] = make(chan struct{}, 1)
	}

	return i.busy[name]
}

func (i *injector) inject(f *Fault, k kind, n int) {
	f.Begin = time.Since(i.began)
	if err := k.inject(i.system, n, f.Hold); err != nil {
		f.Error = err.Error()
	}
	f.End = time.Since(i.began)

	i.mu.Lock()
	defer i.mu.Unlock()
	i.log = append(i.log, f)
}

func (i *injector) injected() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.log)
}
