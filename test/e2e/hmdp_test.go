package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

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
	purchase := rig.Request{Method: http.MethodPost, Path: "/voucher-order/seckill/" + p.Sale(t, 100)}

	var mu sync.Mutex
	answers := map[string]int{}
	var buyers errgroup.Group
	buyers.SetLimit(50)

	for _, token := range s.Tokens(t, 300) {
		buyers.Go(func() error {
			a, err := p.Send(t.Context(), purchase.With("Authorization", token))

			mu.Lock()
			defer mu.Unlock()
			answers[fmt.Sprint(a.Body["success"], " ", a.Field("errorMsg"))]++
			return err
		})
	}

	require.NoError(t, buyers.Wait())
	require.Equal(t, map[string]int{"true ": 100, "false 库存不足": 200}, answers)
	s.Verify(t)
}
