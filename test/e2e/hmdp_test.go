package e2e

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestHmdpLoadTest is the load test of the course, with the tokens that docs/hmdp.md writes for it: each of many buyers has one
// and buys once. Of 300 buyers, 100 get the 100 units. See jishuzhan.net/article/1991831503500804097 for what it takes without.
func TestHmdpLoadTest(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.EmbeddedStack(t)
	p := s.Serve(t)
	path := p.URL + "/voucher-order/seckill/" + p.Sale(t, 100)
	client := &http.Client{Timeout: 30 * time.Second}

	var mu sync.Mutex
	answers := map[string]int{}
	var buyers errgroup.Group
	buyers.SetLimit(50)

	for _, token := range s.Tokens(t, 300) {
		buyers.Go(func() error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody)
			if err != nil {
				return err
			}
			req.Header.Set("authorization", token)
			res, err := client.Do(req)
			if err != nil {
				return err
			}
			defer res.Body.Close()

			var envelope struct{ ErrorMsg string }
			if err := json.NewDecoder(res.Body).Decode(&envelope); err != nil {
				return err
			}

			mu.Lock()
			defer mu.Unlock()
			answers[envelope.ErrorMsg]++
			return nil
		})
	}

	require.NoError(t, buyers.Wait())
	require.Equal(t, map[string]int{"": 100, "库存不足": 200}, answers)
	s.Verify(t)
}
