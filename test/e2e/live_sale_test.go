package e2e

import (
	"context"
	"errors"
	"net/http"
	"regexp"
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

// liveSale is a sale in lane queue with buyers that purchase and cancel continuously while a test damages the gate, and
// with other buyers that keep an active order.
type liveSale struct {
	*stack
	p         *server
	sale      string
	rdb       redis.UniversalClient
	buyers    []rush.Order // orders that stay active
	cancelled []rush.Order // cancelled orders
	newTokens []string     // tokens of buyers without an order

	mu          sync.Mutex // held while the shoppers must pause
	stop        func()     // ends the shoppers
	unconfirmed sync.Map   // ids of orders whose cancellation got no answer
}

// startLiveSale starts a server and a live sale.
func startLiveSale(t *testing.T, s *stack, shoppers int, pause time.Duration) *liveSale {
	t.Helper()
	l := &liveSale{stack: s, p: s.serve(t)}
	l.sale = l.p.sale(t, liveUnits)
	tokens := s.tokens(t, liveBuyers+liveCancelled+shoppers+2*liveUnits)
	next := func(n int) []string {
		some := tokens[:n]
		tokens = tokens[n:]
		return some
	}
	for _, token := range next(liveBuyers) {
		l.buyers = append(l.buyers, l.order(t, token))
	}
	for _, token := range next(liveCancelled) {
		l.cancelled = append(l.cancelled, l.p.mustCancel(t, token, l.order(t, token).ID))
	}
	l.rdb = s.client(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	for _, token := range next(shoppers) {
		wg.Go(func() { l.buyAndCancel(ctx, token, pause) })
	}
	l.newTokens = tokens
	l.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(l.stop)
	return l
}

// order places an order and waits until it is committed.
func (l *liveSale) order(t *testing.T, token string) rush.Order {
	t.Helper()
	o := l.p.buy(t, token, l.sale)
	return answered(t, func() (rush.Order, error) { return l.p.Order(t.Context(), token, o.ID) })
}

// buyAndCancel repeats a purchase and its cancellation until ctx ends. The answers are not checked because they depend
// on the damage to the gate.
func (l *liveSale) buyAndCancel(ctx context.Context, token string, pause time.Duration) {
	for ctx.Err() == nil {
		l.mu.Lock()
		l.mu.Unlock() //nolint:staticcheck // waits while a test holds it
		o, err := l.p.Place(ctx, token, l.sale)
		var problem *rush.Problem
		if errors.As(err, &problem) && problem.Code == "duplicate_order" {
			o.ID = problem.OrderID
		}
		if o.ID != "" {
			_, err := l.p.Cancel(ctx, token, o.ID)
			refused := errors.As(err, &problem) && problem.Status < http.StatusInternalServerError
			if err != nil && !refused {
				l.unconfirmed.Store(o.ID, true)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// key returns a Redis key of the sale.
func (l *liveSale) key(name string) string {
	id, _ := strconv.ParseUint(l.sale, 10, 64)
	return strings.TrimSuffix(admission.Streams()[id%16], "orders") + l.sale + ":" + name
}

// shardKey returns a Redis key of the sale's shard.
func (l *liveSale) shardKey(name string) string {
	return strings.TrimSuffix(l.key(""), l.sale+":") + name
}

// sellOut sells the remaining units and requires that as many orders are active as there are units, with no findings
// left.
func (l *liveSale) sellOut(t *testing.T) {
	t.Helper()
	l.stop()
	requireSettled(t, l.stack)
	for _, token := range l.newTokens {
		_, err := l.p.Place(t.Context(), token, l.sale)
		if err != nil && !hasCode(err, "unavailable") && !hasCode(err, "overloaded") {
			requireCode(t, "sold_out", err)
		}
	}
	requireSettled(t, l.stack)
	requireStock(t, l.p.Client, l.sale, 0)
	l.verify(t)
	requireNoFindings(t, l.stack)
}

func (l *liveSale) number() int64 {
	id, _ := strconv.ParseInt(l.sale, 10, 64)
	return id
}

// withoutBackgroundRepair returns a stack whose servers do not repair gates by themselves, and whose reconcile command
// uses short waits.
func withoutBackgroundRepair(s *stack) *stack {
	return s.in("queue").with(envEvery+"=1h", envMinAge+"=2s", envPause+"=500ms", envLasting+"=2s")
}

// requireSound requires that the sale has no findings and no violations while it goes on. On a busy machine an order may be
// on its way between the gate and the database for longer than the short waits of the test, so what concerns the gate counts
// if it stays. The database is right at any moment.
func (l *liveSale) requireSound(t *testing.T) {
	t.Helper()
	var code int
	var out string
	defer func() {
		if t.Failed() {
			t.Log(out)
		}
	}()
	eventually(t, "no findings", func() bool {
		code, out = l.run(t, "reconcile")
		return code == 0 && strings.Contains(out, ": 0 findings repaired, 0 left")
	})
	eventually(t, "no violations", func() bool {
		code, out = l.run(t, "verify")
		return code == 0 || regexp.MustCompile(`: I[1-4]: `).MatchString(out)
	})
	require.Zero(t, code, "a violation in the database")
	v := answered(t, func() (rush.Voucher, error) { return l.p.Voucher(t.Context(), l.sale) })
	require.GreaterOrEqual(t, v.Stock, int64(0))
}

const (
	liveUnits     = 60
	liveBuyers    = 10
	liveCancelled = 3
)
