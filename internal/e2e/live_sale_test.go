package e2e

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/admission"
	"seckill/internal/rush"
)

// liveSale is a sale in the lane queue in which buyers keep buying and cancelling, whatever is done to it, beside some
// who hold an order all the time.
type liveSale struct {
	*stack
	p       *process
	sale    string
	rdb     redis.UniversalClient
	holders []rush.Order // who stay
	gone    []rush.Order // cancelled
	fresh   []string     // tokens of buyers who have not come yet

	mu     sync.Mutex // held by somebody who wants the shoppers to stand still
	stop   func()     // sends them home
	unsure sync.Map   // ids of orders whose cancellation was not answered: it may be committed, and the gate not told
}

// startLiveSale needs orders that are old enough to be missed, so it takes a moment.
func startLiveSale(t *testing.T, s *stack, shoppers int, pause time.Duration) *liveSale {
	t.Helper()
	l := &liveSale{stack: s, p: s.serve(t, "")}
	l.sale = l.p.sale(t, liveUnits)
	tokens := s.tokens(t, liveHolders+liveGone+shoppers+2*liveUnits)
	next := func(n int) []string {
		some := tokens[:n]
		tokens = tokens[n:]
		return some
	}
	for _, token := range next(liveHolders) {
		l.holders = append(l.holders, l.order(t, token))
	}
	for _, token := range next(liveGone) {
		o, err := l.p.Cancel(t.Context(), token, l.order(t, token).ID)
		require.NoError(t, err)
		l.gone = append(l.gone, o)
	}
	l.rdb = s.client(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	for _, token := range next(shoppers) {
		wg.Go(func() { l.shop(ctx, token, pause) })
	}
	l.fresh = tokens
	l.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(l.stop)
	return l
}

// order buys and waits until the order is made.
func (l *liveSale) order(t *testing.T, token string) rush.Order {
	t.Helper()
	o, err := l.p.Place(t.Context(), token, l.sale)
	require.NoError(t, err)
	requireOrdered(t, l.p, token, o.ID)
	o, err = l.p.Order(t.Context(), token, o.ID)
	require.NoError(t, err)
	return o
}

// shop buys, and cancels what was bought, again and again. What buyers hear while a gate is broken is up to the gate.
func (l *liveSale) shop(ctx context.Context, token string, pause time.Duration) {
	for ctx.Err() == nil {
		l.mu.Lock()
		l.mu.Unlock() //nolint:staticcheck // somebody may hold it
		o, err := l.p.Place(ctx, token, l.sale)
		var problem *rush.Problem
		if errors.As(err, &problem) && problem.Code == "duplicate_order" {
			o.ID = problem.OrderID
		}
		if o.ID != "" {
			_, err := l.p.Cancel(ctx, token, o.ID)
			refused := errors.As(err, &problem) && problem.Status < http.StatusInternalServerError
			if err != nil && !refused {
				l.unsure.Store(o.ID, true)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// key is one of the sale's keys in Redis.
func (l *liveSale) key(name string) string {
	id, _ := strconv.ParseUint(l.sale, 10, 64)
	return strings.TrimSuffix(admission.Streams()[id%16], "orders") + l.sale + ":" + name
}

// shardKey is one of those that its shard has.
func (l *liveSale) shardKey(name string) string {
	return strings.TrimSuffix(l.key(""), l.sale+":") + name
}

// sellOut lets buyers come until nothing is left: exactly as many as there are units hold an order then, and every
// promise is kept.
func (l *liveSale) sellOut(t *testing.T) {
	t.Helper()
	l.stop()
	requireSettled(t, l.stack)
	for _, token := range l.fresh {
		_, err := l.p.Place(t.Context(), token, l.sale)
		if err != nil {
			requireCode(t, "sold_out", err)
		}
	}
	requireSettled(t, l.stack)
	requireStock(t, l.p.Client, l.sale, 0)
	l.verify(t)
	requireNothingFound(t, l.stack)
}

func (l *liveSale) number() int64 {
	id, _ := strconv.ParseInt(l.sale, 10, 64)
	return id
}

// patient is a stack whose background leaves the gates alone, and whose command is in a hurry.
func patient(s *stack) *stack {
	return s.in("queue").with(envEvery+"=1h", envMinAge+"=2s", envPause+"=500ms", envLasting+"=2s")
}

// requireBooks: the database balances at every moment.
func (l *liveSale) requireBooks(t *testing.T) {
	t.Helper()
	v, err := l.p.Voucher(t.Context(), l.sale)
	require.NoError(t, err)
	require.GreaterOrEqual(t, v.Stock, int64(0))
	l.verify(t)
}

const (
	liveUnits   = 60
	liveHolders = 10
	liveGone    = 3
)
