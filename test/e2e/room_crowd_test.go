package e2e

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestRoomIsFairToPeople: bots press 600 times a second from one address, from before the sale until it is sold out,
// on every route and on both servers, and buy at once when they are admitted. People enter once, and react in 0.3 to
// 2 s. The bots' share of the units is their share of the accounts, within 3 points.
//
// Chance alone: the number of bots among the 1,000 of 2,000 accounts that get a unit is hypergeometric with 10 % bots.
// The standard deviation of their share is sqrt(0.1 * 0.9 / 1,000 * 1,000 / 1,999) = 0.67 points, so that 3 points are
// 4.5 of them: one run in 140,000.
func TestRoomIsFairToPeople(t *testing.T) {
	env.Full(t)
	t.Parallel()
	const accounts, bots, units, presses = 2000, 200, 1000, 600
	s := rig.RealStack(t)
	servers := []*rig.Server{s.Serve(t), s.Serve(t)}
	tokens := s.Tokens(t, accounts)
	sale := servers[0].RoomSale(t, units, 1000, 60, time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var (
		buyers, lobby   sync.WaitGroup
		toBots, toAll   atomic.Int64
		pressed, robbed atomic.Int64
	)
	begun := make(chan struct{})
	react := func() time.Duration { return 300*time.Millisecond + rand.N(1700*time.Millisecond) }
	for i, token := range tokens {
		p, bot := servers[i%2], i < bots
		lobby.Add(1)
		buyers.Go(func() {
			if !bot {
				_ = rig.Sleep(ctx, react())
			}
			w := &rig.Waiter{P: p, Token: token, Sale: sale, Passes: map[time.Time]string{}, Begun: begun}
			for w.Ticket == "" && ctx.Err() == nil {
				a, _ := p.Entry(ctx, http.MethodPost, token, sale, "")
				w.Note(a)
			}
			lobby.Done()
			if a := w.Wait(ctx); a.Pass == "" {
				return
			}
			if !bot {
				_ = rig.Sleep(ctx, react())
			}
			if a, err := p.Try(ctx, rig.Purchase(sale, token).Pass(w.Pass())); err == nil && a.Success() {
				if toAll.Add(1); bot {
					toBots.Add(1)
				}
			}
		})
	}
	pressing, stop := context.WithCancel(ctx)
	limit := rate.NewLimiter(presses, presses/10)
	var keys sync.WaitGroup
	for range 64 {
		keys.Go(func() {
			for limit.Wait(pressing) == nil {
				n := pressed.Add(1)
				token, p := tokens[n%bots], servers[n/bots%2]
				switch n % 3 {
				case 0:
					_, _ = p.Entry(pressing, http.MethodPost, token, sale, "")
				case 1:
					_, _ = p.Entry(pressing, http.MethodGet, token, sale, "forged")
				case 2:
					if _, err := p.PlaceWithPass(pressing, token, sale, "forged"); err == nil {
						robbed.Add(1)
					}
				}
			}
		})
	}
	began := time.Now()
	lobby.Wait()
	servers[0].BeginSale(t, sale)
	close(begun)
	buyers.Wait()
	stop()
	keys.Wait()
	require.NoError(t, ctx.Err())
	require.Zero(t, robbed.Load(), "purchases without a pass")
	require.Equal(t, int64(units), toAll.Load())
	require.Len(t, s.RoomLog(t, sale).Order(t), accounts, "all were in the lobby")
	share := float64(toBots.Load()) / units
	t.Logf("%d%% of the accounts got %.1f%% of the units with %.0f presses per second",
		100*bots/accounts, 100*share, float64(pressed.Load())/time.Since(began).Seconds())
	require.InDelta(t, float64(bots)/accounts, share, 0.03)
	s.VerifyRoom(t, sale)
	s.Verify(t)
}
