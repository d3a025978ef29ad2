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
)

// balancer sends each request of a client to the server after that of the client's last one, so a purchase always reaches
// another server than the answer with the pass.
type balancer struct {
	servers []atomic.Pointer[rig.Server]
	// forgiven counts the requests that were repeated, because a server had stopped or was not ready.
	forgiven atomic.Int64
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
		a, err := askEntry(ctx, next(), method, token, sale, ticket)
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
		_, err := next().Place(ctx, token, sale, "", pass)
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

// run lets programs buy, and returns how many of them ended with each code. meanwhile runs beside them.
func (b *balancer) run(t *testing.T, tokens []string, sale string, meanwhile func(codes func() map[string]int)) map[string]int {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var mu sync.Mutex
	counts := map[string]int{}
	var programs sync.WaitGroup
	for i, token := range tokens {
		programs.Go(func() {
			code := b.program(ctx, b.from(i), token, sale)
			mu.Lock()
			defer mu.Unlock()
			counts[code]++
		})
	}

	meanwhile(func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return map[string]int{"bought": counts["bought"]}
	})
	programs.Wait()
	return counts
}

// Behind a balancer that sends each request to the next of two or three servers, every unit is sold long before the
// passes expire, as on one server: a purchase counts against its pass whichever server it reaches. The log has the times.
func TestRoomBehindBalancer(t *testing.T) {
	t.Parallel()
	rig.Full("lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		const units, programs, passTTL = 100, 150, 3600
		servers := []*rig.Server{s.Serve(t), s.Serve(t), s.Serve(t)}
		tokens := s.Tokens(t, programs)
		for n := 1; n <= len(servers); n++ {
			sale := roomSale(t, servers[0], units, 50, passTTL, time.Second)
			b := newBalancer(servers[:n]...)
			began := time.Now()
			codes := b.run(t, tokens, sale, func(func() map[string]int) {})
			require.Equal(t, map[string]int{"bought": units, "sold_out": programs - units}, codes)
			t.Logf("servers: %d, last unit after %v, repeated requests: %d", n, time.Since(began), b.forgiven.Load())
			require.LessOrEqual(t, b.forgiven.Load(), int64(5*programs), "without a fault, only a busy machine is forgiven")

			rig.RequireStock(t, servers[0].Client, sale, 0)
			verifyRoom(t, s, sale)
		}
		s.Verify(t)
	})
}

// Each of three servers stops in the middle of a sale with a waiting room, one of them by SIGKILL, and starts again. What
// it knew of the passes that had bought is not lost: every unit is sold long before the passes expire.
func TestRoomSurvivesRestarts(t *testing.T) {
	t.Parallel()
	rig.Full("lock/mariadb", "queue/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		const units, programs, passTTL, rate = 120, 180, 3600, 15
		servers := []*rig.Server{s.Spawn(t, ""), s.Spawn(t, ""), s.Spawn(t, "")}
		sale := roomSale(t, servers[0], units, rate, passTTL, 2*time.Second)
		b := newBalancer(servers...)
		codes := b.run(t, s.Tokens(t, programs), sale, func(codes func() map[string]int) {
			for i, p := range servers {
				rig.Eventually(t, "the sale goes on", func() bool { return codes()["bought"] >= (i+1)*units/5 })
				if i == 0 {
					p.Kill()
				} else {
					require.Zero(t, p.Stop(t))
				}
				servers[i] = s.Spawn(t, strings.TrimPrefix(p.URL, "http://"))
				b.servers[i].Store(servers[i])
			}
		})
		require.Equal(t, map[string]int{"bought": units, "sold_out": programs - units}, codes)
		t.Logf("%d requests were repeated", b.forgiven.Load())
		require.LessOrEqual(t, b.forgiven.Load(), int64(20*programs), "each server is away for seconds")

		rig.RequireStock(t, servers[0].Client, sale, 0)
		verifyRoom(t, s, sale)
		s.Verify(t)
	})
}
