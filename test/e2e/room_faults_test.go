package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/rush"
)

// TestRoomSurvivesFaults: while a room is full, Redis loses its data, one of four servers is killed, and the clocks of two
// others are wrong by ten minutes. Each buyer is admitted once, with the same place and the same pass on every server,
// and buys with it on a server that did not give it.
func TestRoomSurvivesFaults(t *testing.T) {
	t.Parallel()
	s := realStack(t)
	const buyers, rate = 240, 40
	clock := func(off time.Duration) *stack {
		return s.with(envClock + "=" + time.Now().Add(off).UTC().Format(time.RFC3339))
	}
	right, killed := s.serve(t), s.spawn(t, "")
	fast, slow := clock(10*time.Minute).serve(t), clock(-10*time.Minute).serve(t)
	sale := right.roomSale(t, buyers, rate, 60, 3*time.Second)
	log := s.roomLog(t, sale)
	all := enter(t, sale, s.tokens(t, buyers), right, killed, fast, slow)
	numbers := make([]uint32, buyers)
	for i, w := range all {
		numbers[i] = w.number
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var waiting sync.WaitGroup
	for _, w := range all {
		waiting.Go(func() { w.wait(ctx, right, fast) })
	}
	eventually(t, "buyers are admitted", func() bool { return len(log.admitted(t)) > 20 })
	require.NoError(t, s.flush())
	killed.kill()
	waiting.Wait()
	require.NoError(t, ctx.Err(), "all are admitted")

	admitted := log.admitted(t)
	require.ElementsMatch(t, numbers, admitted, "each place is admitted once")
	servers := []*server{right, fast, slow}
	concurrently(buyers, func(i int) {
		w := all[i]
		for _, p := range servers {
			a, err := p.tryEntry(ctx, http.MethodGet, w.token, sale, w.ticket)
			if err != nil || a.Pass == "" {
				t.Errorf("%s: no pass: %v %+v", p.url, err, a)
			}
			w.note(a)
		}
		if len(w.passes) != 1 || w.number != numbers[i] {
			t.Errorf("number %d is now %d, with the passes %v", numbers[i], w.number, w.passes)
		}
		p := servers[i%len(servers)]
		if _, err := p.placeWith(ctx, w.token, sale, w.pass()); err != nil {
			t.Errorf("%s: %v", p.url, err)
		}
	})
	s.verifyRoom(t, sale)
	requireStock(t, right.Client, sale, 0)
	s.verify(t)
}

// TestRoomControl: a pause, a rate and a revocation act on each of three servers, and all show them.
func TestRoomControl(t *testing.T) {
	t.Parallel()
	s := realStack(t)
	servers := []*server{s.serve(t), s.serve(t), s.serve(t)}
	admin, tokens := servers[0].admin(t), s.tokens(t, 400)
	sale := servers[0].roomSale(t, 1000, 20, 60, time.Hour)
	log := s.roomLog(t, sale)
	all := enter(t, sale, tokens, servers...)
	servers[0].beginSale(t, sale)
	ctx, stop := context.WithCancel(t.Context())
	var polls sync.WaitGroup
	for _, w := range all { // also after the admission
		polls.Go(func() {
			for ctx.Err() == nil {
				a, _ := w.p.entry(ctx, http.MethodGet, w.token, sale, w.ticket)
				_ = sleep(ctx, max(time.Duration(a.Poll)*time.Millisecond, time.Second))
			}
		})
	}
	defer polls.Wait()
	defer stop()
	eventually(t, "buyers are admitted", func() bool { return len(log.admitted(t)) >= 30 })

	servers[0].changeRoom(t, admin, sale, map[string]any{"paused": true, "message": "one moment"})
	for i, p := range servers {
		eventually(t, fmt.Sprintf("server %d pauses", i), func() bool {
			admitted := log.admitted(t)
			last := slices.IndexFunc(all, func(w *waiter) bool { return w.p == p && !slices.Contains(admitted, w.number) })
			require.NotEqual(t, -1, last, "all are admitted")
			a, err := p.entry(t.Context(), http.MethodGet, all[last].token, sale, all[last].ticket)
			return err == nil && a.Paused && a.Message == "one moment"
		})
	}
	paused := log.admissions(t)
	time.Sleep(1500 * time.Millisecond)
	require.Len(t, log.admissions(t), len(paused), "nobody is admitted during a pause")

	// A server that comes late admits what was due in the last two seconds: 40 buyers at the old rate.
	servers[1].changeRoom(t, admin, sale, map[string]any{"paused": false, "rate": 1000})
	eventually(t, "all are admitted", func() bool { return len(log.admitted(t)) == len(tokens) })
	require.True(t, slices.ContainsFunc(log.admissions(t)[len(paused):], func(e domain.RoomEvent) bool { return len(e.Numbers) > 40 }), "the new rate")

	passes := make([]string, len(all))
	eventually(t, "all have passes", func() bool {
		concurrently(len(all), func(i int) {
			a, _ := all[i].p.tryEntry(t.Context(), http.MethodGet, all[i].token, sale, all[i].ticket)
			passes[i] = a.Pass
		})
		return !slices.Contains(passes, "")
	})
	servers[0].mustPlaceWith(t, all[0].token, sale, passes[0])
	servers[2].changeRoom(t, admin, sale, map[string]any{"revoke": true})
	for i, p := range servers {
		eventually(t, fmt.Sprintf("server %d gives new passes", i), func() bool {
			a, err := p.entry(t.Context(), http.MethodGet, all[1].token, sale, all[1].ticket)
			return err == nil && a.Pass != "" && a.Pass != passes[1]
		})
	}
	for i, w := range all[1:61] {
		servers[i%3].refuses(t, "entry_required", w.token, sale, passes[1+i])
	}
	renewed := servers[0].mustEntry(t, http.MethodGet, all[1].token, sale, all[1].ticket)
	servers[1].mustPlaceWith(t, all[1].token, sale, renewed.Pass) // those who were admitted get new passes
	s.verifyRoom(t, sale)
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// TestRoomSoldOut checks in every lane that there are no more passes than units, that all waiting buyers learn of the end
// of the stock, by polls and on streams, and that a returned unit goes to the next in line although
// scripts and its former buyer press all the time.
func TestRoomSoldOut(t *testing.T) {
	t.Parallel()
	eachLane(t, true, func(t *testing.T, s *stack) {
		const units, buyers, scripts = 10, 80, 5
		a, b := s.serve(t), s.spawn(t, "")
		servers, tokens := []*server{a, b}, s.tokens(t, buyers+scripts)
		admin, sale := a.admin(t), a.roomSale(t, units, 50, 60, time.Hour)
		log := s.roomLog(t, sale)
		all := enter(t, sale, tokens[:buyers], servers...)
		a.beginSale(t, sale)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		codes := make(chan string, buyers)
		for _, w := range all {
			go func() { codes <- w.wait(ctx).Code }()
		}
		eventually(t, "the first buyers are admitted", func() bool { return len(log.admitted(t)) >= units })
		a.changeRoom(t, admin, sale, map[string]any{"rate": 1}) // from now on the others poll every ten seconds
		for range units {
			require.Empty(t, <-codes)
		}
		time.Sleep(1500 * time.Millisecond)
		order := log.order(t)
		require.Len(t, order, buyers)
		require.Equal(t, order[:units], log.admitted(t), "as many passes as units")
		byNumber := map[uint32]*waiter{}
		for _, w := range all {
			byNumber[w.number] = w
		}

		streams := make(chan streamEnd, buyers)
		for _, number := range order[units:] {
			w := byNumber[number]
			go func() {
				code, err := w.watch(ctx)
				streams <- streamEnd{code, err}
			}()
		}
		var orders []string
		for i, number := range order[:units] {
			o := servers[i%2].mustPlaceWith(t, byNumber[number].token, sale, byNumber[number].pass())
			requireOrdered(t, a, byNumber[number].token, o.ID)
			orders = append(orders, o.ID)
		}
		for _, number := range order[units:] {
			w := byNumber[number]
			eventually(t, "a poll is answered sold_out", func() bool {
				return servers[number%2].mustEntry(t, http.MethodGet, w.token, sale, w.ticket).Code == "sold_out"
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
		admitted := make(chan *waiter, buyers)
		for _, number := range order[units:] {
			w := byNumber[number]
			pressing.Go(func() {
				for ctx.Err() == nil {
					if answer, _ := w.poll(ctx); answer.Pass != "" {
						admitted <- w
						return
					}
					polls.Add(1)
					_ = sleep(ctx, 300*time.Millisecond)
				}
			})
		}
		first := byNumber[order[0]]
		press := func(token, pass string) {
			for ctx.Err() == nil {
				_, _ = b.entry(ctx, http.MethodPost, token, sale, "")
				if o, err := a.PlaceWithPass(ctx, token, sale, pass); err == nil {
					t.Errorf("a script has the order %s", o.ID)
					return
				}
			}
		}
		eventually(t, "all of them are present", func() bool { return polls.Load() > 5*(buyers-units) })
		for _, token := range tokens[buyers:] {
			pressing.Go(func() { press(token, first.pass()) })
		}
		pressing.Go(func() { press(first.token, first.pass()) }) // until the order is cancelled: duplicate_order
		a.mustCancel(t, first.token, orders[0])
		var got *waiter
		select {
		case got = <-admitted:
		case <-time.After(time.Minute):
			require.Fail(t, "the unit did not come back")
		}
		require.Equal(t, next.number, got.number)
		b.buyReturnedWith(t, got, sale)
		stop()
		pressing.Wait()
		require.Equal(t, order[:units+1], log.admitted(t))
		s.verifyRoom(t, sale)
		s.verify(t)
	})
}

// streamEnd is the last event of a stream.
type streamEnd struct {
	code string
	err  error
}

// placeWith places an order with a pass. For a minute it repeats a purchase that is answered 503, whose order may exist then.
func (p *server) placeWith(ctx context.Context, token, sale, pass string) (o rush.Order, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for repeated := false; ; repeated = true {
		o, err = p.PlaceWithPass(ctx, token, sale, pass)
		if refusal, ok := errors.AsType[*rush.Problem](err); ok && repeated && refusal.Code == "duplicate_order" {
			return rush.Order{ID: refusal.OrderID}, nil
		}
		if !busy(err) || sleep(ctx, 20*time.Millisecond) != nil {
			return o, err
		}
	}
}

// mustPlaceWith requires a purchase with a pass to succeed.
func (p *server) mustPlaceWith(t *testing.T, token, sale, pass string) rush.Order {
	t.Helper()
	o, err := p.placeWith(t.Context(), token, sale, pass)
	require.NoError(t, err)
	return o
}

// refuses requires a purchase with a pass to be refused with a code.
func (p *server) refuses(t *testing.T, code, token, sale, pass string) {
	t.Helper()
	_, err := p.placeWith(t.Context(), token, sale, pass)
	requireCode(t, code, err)
}

// buyReturnedWith buys a unit that has just come back, with the pass of the buyer.
func (p *server) buyReturnedWith(t *testing.T, w *waiter, sale string) {
	t.Helper()
	eventually(t, "the buyer has the unit", func() bool {
		o, err := p.placeWith(t.Context(), w.token, sale, w.pass())
		if err != nil {
			requireCode(t, "sold_out", err)
			return false
		}
		requireOrdered(t, p, w.token, o.ID)
		return true
	})
}
