package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/rush"
	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

// envPrevious is the path of the binary of the previous release, which runs beside this version.
const envPrevious = "SECKILL_TEST_PREVIOUS"

// TestPreviousBinaryInMidRush starts this version beside the previous release in mid-rush, which changes the schema under
// it. The previous release goes on selling and can be started again on the new schema.
func TestPreviousBinaryInMidRush(t *testing.T) {
	t.Parallel()
	testenv.Full(t)
	binary := os.Getenv(envPrevious)
	if binary == "" {
		t.Skip("no previous release in " + envPrevious)
	}
	for _, lane := range rig.Lanes {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s := rig.RealStack(t).OnEmptyDatabase(t).In(lane)
			old := *s
			old.Binary = binary
			code, out := old.Run(t, "migrate", "up")
			require.Zero(t, code, out)
			before := old.Spawn(t, rig.FreeAddr(t))
			tokens := old.Seed(t, 1201)
			addr := rig.FreeAddr(t)
			proxy, front := newReadinessProxy(t, []string{before.URL, "http://" + addr})
			c := rig.BuyersOf(before.Sale(t, 1000), 1000, tokens[:1200])
			through, err := rush.NewClient(front, 256)
			require.NoError(t, err)
			t.Cleanup(through.Close)
			c.Clients = []*rush.Client{through}
			rig.Eventually(t, "the proxy has found the server", proxy.ready[0].Load)
			wait := rig.LongRush(t, s, c, 12*time.Second)
			after := s.Spawn(t, addr)
			rig.Eventually(t, "the proxy has found the new server", proxy.ready[1].Load)
			require.Positive(t, s.Count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+c.VoucherID), "both versions sell")
			r := wait()
			c.Clients = []*rush.Client{after.Client}
			rig.RequireSoldOut(t, s, c, r)
			rig.RequireInvariants(t, s, c, r)

			before.Stop(t)
			again := old.Spawn(t, "")
			rig.RequireReady(t, again)
			sale := after.Sale(t, 1)
			again.Must(t, rig.Purchase(sale, tokens[1200]))
			rig.RequireSettled(t, s)
			s.Verify(t)
		})
	}
}
