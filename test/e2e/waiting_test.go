package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/rush"
	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

// TestWaitingBuyersCostFewCommands: 5,000 buyers that wait for their queued orders, with Prefer or on an event stream,
// cost Redis less than one command each, and each gets an answer. TestWaitingBuyersAreAnswered of package queue bounds the
// time until then.
func TestWaitingBuyersCostFewCommands(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s, release := rig.HoldWorkers(t, rig.RealStack(t).In("queue"))
	p := s.Spawn(t, "") // whose connections have files of their own
	const buyers = 5000
	sale, tokens, rdb := p.Sale(t, buyers), s.Tokens(t, buyers), s.Client(t)
	ids, errs := make([]string, buyers), make([]error, buyers)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var waiting sync.WaitGroup
	for i, token := range tokens {
		waiting.Go(func() {
			ids[i], errs[i] = queueUp(ctx, p, rig.Purchase(sale, token).Keyed("k").With("Prefer", "wait=5"))
		})
	}
	rig.Eventually(t, "all buyers wait", func() bool {
		lag, err := app.ReadLag(t.Context(), rdb)
		return err == nil && lag.Unsettled == buyers
	})
	before := commands(t, rdb)
	waiting.Wait() // no worker runs, so the server's own bound ends each wait
	require.NoError(t, errors.Join(errs...))
	requireFew := func() {
		t.Helper()
		require.Less(t, commands(t, rdb)-before, int64(buyers))
	}
	requireFew()

	before = commands(t, rdb)
	seen := make(chan string, 2*buyers)
	for i, id := range ids {
		waiting.Go(func() { followUntil(ctx, p, "pending_payment", id, tokens[i], seen) })
	}
	for range buyers {
		require.Equal(t, "queued", <-seen)
	}
	time.Sleep(3 * time.Second) // for the case that streams poll
	requireFew()
	release()
	for range buyers {
		require.Equal(t, "pending_payment", <-seen)
	}
	waiting.Wait()
	s.Verify(t)
}

// queueUp sends a purchase until it is answered, and returns the id of its order. A busy machine may end a connection whose
// header it got too late.
func queueUp(ctx context.Context, p *rig.Server, purchase rig.Request) (order string, err error) {
	for {
		a, err := p.Try(ctx, purchase)
		switch {
		case err != nil && ctx.Err() == nil:
			rig.ForgiveDial()
		case err != nil:
			return "", err
		case a.Status != http.StatusAccepted:
			return "", fmt.Errorf("answered %d %s", a.Status, a.Text)
		default:
			return a.Order(), nil
		}
	}
}

// followUntil sends each new status of an order up to last, or the reason for an earlier end of its event stream.
func followUntil(ctx context.Context, p *rig.Server, last, order, token string, seen chan<- string) {
	stream, err := p.Open(ctx, rig.Get("/orders/"+order+"/events", token))
	for err != nil && ctx.Err() == nil { // as for queueUp
		stream, err = p.Open(ctx, rig.Get("/orders/"+order+"/events", token))
	}
	if err != nil {
		seen <- err.Error()
		return
	}
	defer stream.Close()

	var before, now rush.Order
	for before.Status != last {
		if _, err := stream.Next(&now); err != nil {
			seen <- err.Error()
			return
		}
		if now.Status != before.Status { // and not only another position in the queue
			seen <- now.Status
		}
		before = now
	}
}

// commands returns how many commands Redis has executed.
func commands(t *testing.T, rdb redis.UniversalClient) int64 {
	t.Helper()
	info, err := rdb.Info(t.Context(), "stats").Result()
	require.NoError(t, err)
	_, after, _ := strings.Cut(info, "total_commands_processed:")
	text, _, _ := strings.Cut(after, "\r\n")
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}
