package e2e

import (
	"bufio"
	"encoding/json"
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
	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

// TestWaitingBuyersCostFewCommands: 5,000 buyers that wait for their queued orders, with Prefer or on an event stream,
// cost Redis fewer than 2,000 commands per second, and each gets an answer. TestWaitingBuyersAreAnswered of package
// queue bounds the time until then.
func TestWaitingBuyersCostFewCommands(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s, release := rig.HoldWorkers(t, rig.RealStack(t).In("queue"))
	p := s.Spawn(t, "") // whose connections have files of their own
	const buyers = 5000
	sale, tokens, rdb := p.Sale(t, buyers), s.Tokens(t, buyers), s.Client(t)
	ids, errs := make([]string, buyers), make([]error, buyers)
	var waiting sync.WaitGroup
	for i, token := range tokens {
		waiting.Go(func() { ids[i], errs[i] = p.QueueUp(t.Context(), token, sale) })
	}
	rig.Eventually(t, "all buyers wait", func() bool {
		lag, err := app.ReadLag(t.Context(), rdb)
		return err == nil && lag.Unsettled == buyers
	})
	requireFewCommands(t, rdb)
	waiting.Wait() // no worker runs, so the server's own bound ends each wait
	require.NoError(t, errors.Join(errs...))

	seen := make(chan string, 2*buyers)
	for i, id := range ids {
		waiting.Go(func() { followUntil("pending_payment", p.URL+"/api/v1/orders/"+id+"/events", tokens[i], seen) })
	}
	for range buyers {
		require.Equal(t, "queued", <-seen)
	}
	requireFewCommands(t, rdb)
	release()
	for range buyers {
		require.Equal(t, "pending_payment", <-seen)
	}
	waiting.Wait()
	s.Verify(t)
}

// followUntil sends each new status of an event stream up to last, or the reason for an earlier end of the stream. For a
// while a busy machine may not open it: the server answers 503, or ends a connection whose header it got too late.
func followUntil(last, url, token string, seen chan<- string) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		seen <- err.Error()
		return
	}
	req.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Timeout: 3 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	for deadline := time.Now().Add(time.Minute); (err != nil || res.StatusCode == http.StatusServiceUnavailable) && time.Now().Before(deadline); {
		if err == nil {
			_ = res.Body.Close()
		}
		res, err = client.Do(req)
	}
	if err != nil {
		seen <- err.Error()
		return
	}
	defer res.Body.Close()
	status := ""
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var o struct{ Status string }
		if !ok || json.Unmarshal([]byte(data), &o) != nil || o.Status == status {
			continue // a new queue position, or the end of an event
		}
		status = o.Status
		if seen <- status; status == last {
			return
		}
	}
	seen <- fmt.Sprint("the stream ended: ", res.Status, lines.Err())
}

// requireFewCommands counts the commands of Redis over two seconds, including those of the workers.
func requireFewCommands(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	count := func() int64 {
		info, err := rdb.Info(t.Context(), "stats").Result()
		require.NoError(t, err)
		_, after, _ := strings.Cut(info, "total_commands_processed:")
		text, _, _ := strings.Cut(after, "\r\n")
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		return n
	}
	before, start := count(), time.Now()
	time.Sleep(2 * time.Second)
	perSecond := float64(count()-before) / time.Since(start).Seconds()
	t.Logf("%.0f commands per second", perSecond)
	require.Less(t, perSecond, 2000.0)
}
