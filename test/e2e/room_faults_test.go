package e2e

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestRoomSurvivesFaults: while a room is full, Redis loses its data, one of four servers is killed, and the clocks of two
// others are wrong by ten minutes. Each buyer is admitted once, with the same place and the same pass on every server,
// and buys with it on a server that did not give it.
func TestRoomSurvivesFaults(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.RealStack(t)
	const buyers, rate = 240, 40
	clock := func(off time.Duration) *rig.Stack {
		return s.With(rig.EnvClock + "=" + time.Now().Add(off).UTC().Format(time.RFC3339))
	}
	right, killed := s.Serve(t), s.Spawn(t, "")
	fast, slow := clock(10*time.Minute).Serve(t), clock(-10*time.Minute).Serve(t)
	sale := right.RoomSale(t, buyers, rate, 600, 3*time.Second)
	log := s.RoomLog(t, sale)
	all := enter(t, sale, s.Tokens(t, buyers), right, killed, fast, slow)
	numbers := make([]uint32, buyers)
	for i, w := range all {
		numbers[i] = w.Number
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var waiting sync.WaitGroup
	for _, w := range all {
		waiting.Go(func() { w.Wait(ctx, right, fast) })
	}
	rig.Eventually(t, "buyers are admitted", func() bool { return len(log.Admitted(t)) > 20 })
	require.NoError(t, s.Flush())
	killed.Kill()
	waiting.Wait()
	require.NoError(t, ctx.Err(), "all are admitted")

	admitted := log.Admitted(t)
	require.ElementsMatch(t, numbers, admitted, "each place is admitted once")
	servers := []*rig.Server{right, fast, slow}
	concurrently(buyers, func(i int) {
		w := all[i]
		for _, p := range servers {
			a, err := p.TryEntry(ctx, http.MethodGet, w.Token, sale, w.Ticket)
			if err != nil || a.Pass == "" {
				t.Errorf("%s: no pass: %v %+v", p.URL, err, a)
			}
			w.Note(a)
		}
		if len(w.Passes) != 1 || w.Number != numbers[i] {
			t.Errorf("number %d is now %d, with the passes %v", numbers[i], w.Number, w.Passes)
		}
		p := servers[i%len(servers)]
		if a, err := p.Try(ctx, rig.Purchase(sale, w.Token).Pass(w.Pass())); err != nil || !a.Success() {
			t.Errorf("%s: %v %s", p.URL, err, a.Text)
		}
	})
	s.VerifyRoom(t, sale)
	rig.RequireStock(t, right.Client, sale, 0)
	s.Verify(t)
}

// TestRoomSoldOut checks in every lane that there are no more passes than units, that all waiting buyers learn of the end
// of the stock, by polls and on streams, and that a returned unit goes to the next in line although
// scripts and its former buyer press all the time.
func TestRoomSoldOut(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		const units, buyers, scripts = 10, 80, 5
		a, b := s.Serve(t), s.Spawn(t, "")
		servers, tokens := []*rig.Server{a, b}, s.Tokens(t, buyers+scripts)
		admin, sale := a.Admin(t), a.RoomSale(t, units, 50, 60, time.Hour)
		log := s.RoomLog(t, sale)
		all := enter(t, sale, tokens[:buyers], servers...)
		a.BeginSale(t, sale)
		begun := make(chan struct{})
		close(begun)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		codes := make(chan string, buyers)
		for _, w := range all {
			w.Begun = begun // polls soon until its server has learned of it
			go func() { codes <- w.Wait(ctx).Code }()
		}
		rig.Eventually(t, "the first buyers are admitted", func() bool { return len(log.Admitted(t)) >= units })
		a.ChangeRoom(t, admin, sale, map[string]any{"rate": 1}) // from now on the others poll every ten seconds
		for range units {
			require.Empty(t, <-codes)
		}
		order := log.Order(t)
		require.Len(t, order, buyers)
		require.Equal(t, order[:units], log.Admitted(t), "as many passes as units")
		byNumber := map[uint32]*rig.Waiter{}
		for _, w := range all {
			byNumber[w.Number] = w
		}

		streams := make(chan streamEnd, buyers)
		for _, number := range order[units:] {
			w := byNumber[number]
			go func() {
				code, err := w.Watch(ctx)
				streams <- streamEnd{code, err}
			}()
		}
		var orders []string
		for i, number := range order[:units] {
			w := byNumber[number]
			o := servers[i%2].Do(t, rig.Purchase(sale, w.Token).Pass(w.Pass())).Order()
			rig.RequireOrdered(t, a, w.Token, o)
			orders = append(orders, o)
		}
		for _, number := range order[units:] {
			w := byNumber[number]
			rig.Eventually(t, "a poll is answered sold_out", func() bool {
				return servers[number%2].MustEntry(t, http.MethodGet, w.Token, sale, w.Ticket).Code == "sold_out"
			})
		}
		for range order[units:] {
			select {
			case end := <-streams:
				require.NoError(t, end.err)
				require.Equal(t, "sold_out", end.code)
			case <-time.After(time.Minute):
				require.Fail(t, "a stream does not end")
			}
		}

		// The next in line and those behind keep polling. Scripts without a place, and the former buyer, press.
		next := byNumber[order[units]]
		var pressing sync.WaitGroup
		var polls atomic.Int64
		admitted := make(chan *rig.Waiter, buyers)
		for _, number := range order[units:] {
			w := byNumber[number]
			pressing.Go(func() {
				for ctx.Err() == nil {
					if answer, _ := w.Poll(ctx); answer.Pass != "" {
						admitted <- w
						return
					}
					polls.Add(1)
					_ = rig.Sleep(ctx, 100*time.Millisecond)
				}
			})
		}
		first := byNumber[order[0]]
		press := func(token, pass string) {
			for ctx.Err() == nil {
				_, _ = b.Entry(ctx, http.MethodPost, token, sale, "")
				if o, err := a.PlaceWithPass(ctx, token, sale, pass); err == nil {
					t.Errorf("a script has the order %s", o.ID)
					return
				}
			}
		}
		rig.Eventually(t, "all of them are present", func() bool { return polls.Load() > 2*(buyers-units) })
		for _, token := range tokens[buyers:] {
			pressing.Go(func() { press(token, first.Pass()) })
		}
		pressing.Go(func() { press(first.Token, first.Pass()) }) // until the order is cancelled: duplicate_order
		a.MustCancel(t, first.Token, orders[0])
		var got *rig.Waiter
		select {
		case got = <-admitted:
		case <-time.After(time.Minute):
			require.Fail(t, "the unit did not come back")
		}
		require.Equal(t, next.Number, got.Number)
		b.BuyReturned(t, rig.Purchase(sale, got.Token).Pass(got.Pass()))
		stop()
		pressing.Wait()
		require.Equal(t, order[:units+1], log.Admitted(t))
		s.VerifyRoom(t, sale)
		s.Verify(t)
	})
}

// streamEnd is the last event of a stream.
type streamEnd struct {
	code string
	err  error
}

// balancer sends each request of a client to the server after that of the client's last one, so a purchase always reaches
// another server than the answer with the pass.
type balancer struct {
	servers []atomic.Pointer[rig.Server]
	// forgiven counts the requests that were repeated, because a server had stopped or was not ready.
	forgiven atomic.Int64
	bought   atomic.Int64
}

func newBalancer(servers ...*rig.Server) *balancer {
	b := &balancer{servers: make([]atomic.Pointer[rig.Server], len(servers))}
	for i, p := range servers {
		b.servers[i].Store(p)
	}
	return b
}

// from returns a client's next servers, the first of which is that of a number.
func (b *balancer) from(turn int) (next func() *rig.Server) {
	return func() *rig.Server {
		turn++
		return b.servers[turn%len(b.servers)].Load()
	}
}

// busyPause is the Retry-After of a busy server.
const busyPause = time.Second

// program waits in the room of a sale and buys as soon as it has a pass. It returns the code of the answer that ended its
// wait: "bought" or an error.
func (b *balancer) program(ctx context.Context, next func() *rig.Server, token, sale string) string {
	method := http.MethodPost
	ticket := ""
	for ctx.Err() == nil {
		a, err := next().Entry(ctx, method, token, sale, ticket)
		switch {
		case err != nil || a.Busy():
			b.forgiven.Add(1)
			_ = rig.Sleep(ctx, busyPause)
			continue
		case a.Code != "":
			return a.Code
		case a.Pass != "":
			return b.buy(ctx, next, token, sale, a.Pass)
		}
		method = http.MethodGet
		ticket = a.Ticket
		_ = rig.Sleep(ctx, min(time.Duration(a.Poll)*time.Millisecond, time.Second))
	}
	return "timeout"
}

// buy buys a unit with a pass. A purchase whose answer was lost may have its order.
func (b *balancer) buy(ctx context.Context, next func() *rig.Server, token, sale, pass string) string {
	for ctx.Err() == nil {
		_, err := next().PlaceWithPass(ctx, token, sale, pass)
		refusal, refused := errors.AsType[*rush.Problem](err)
		switch {
		case err == nil, refused && refusal.Code == "duplicate_order":
			return "bought"
		case refused && !rig.Busy(err):
			return refusal.Code
		}
		b.forgiven.Add(1)
		_ = rig.Sleep(ctx, busyPause)
	}
	return "timeout"
}

// start lets programs buy. The function returns, at their end, how many of them ended with each code.
func (b *balancer) start(t *testing.T, tokens []string, sale string) (wait func() map[string]int) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)

	codes := make(chan string, len(tokens))
	for i, token := range tokens {
		go func() {
			code := b.program(ctx, b.from(i), token, sale)
			if code == "bought" {
				b.bought.Add(1)
			}
			codes <- code
		}()
	}

	return func() map[string]int {
		counts := map[string]int{}
		for range tokens {
			counts[<-codes]++
		}
		return counts
	}
}

// Each of three servers stops in the middle of a sale with a waiting room, one of them by SIGKILL, and starts again. What
// it knew of the passes that had bought is not lost: every unit is sold long before the passes expire.
func TestRoomSurvivesRestarts(t *testing.T) {
	t.Parallel()
	rig.Full("lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		const units, programs, passTTL, rate = 120, 180, 3600, 15
		servers := []*rig.Server{s.Spawn(t, ""), s.Spawn(t, ""), s.Spawn(t, "")}
		sale := servers[0].RoomSale(t, units, rate, passTTL, 2*time.Second)
		b := newBalancer(servers...)
		wait := b.start(t, s.Tokens(t, programs), sale)

		for i, p := range servers {
			rig.Eventually(t, "the sale goes on", func() bool { return b.bought.Load() >= int64((i+1)*units/5) })
			if i == 0 {
				p.Kill()
			} else {
				require.Zero(t, p.Stop(t))
			}
			servers[i] = s.Spawn(t, strings.TrimPrefix(p.URL, "http://"))
			b.servers[i].Store(servers[i])
		}

		require.Equal(t, map[string]int{"bought": units, "sold_out": programs - units}, wait())
		t.Logf("%d requests were repeated", b.forgiven.Load())
		require.LessOrEqual(t, b.forgiven.Load(), int64(20*programs), "each server is away for seconds")

		rig.RequireStock(t, servers[0].Client, sale, 0)
		s.VerifyRoom(t, sale)
		s.Verify(t)
	})
}
