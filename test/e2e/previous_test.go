package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/rush"
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
	for _, lane := range lanes {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s := realStack(t).onEmptyDatabase(t).in(lane)
			old := *s
			old.binary = binary
			code, out := old.run(t, "migrate", "up")
			require.Zero(t, code, out)
			before := old.spawn(t, freeAddr(t))
			tokens := old.seed(t, 1201)
			addr := freeAddr(t)
			proxy, front := newReadinessProxy(t, []string{before.url, "http://" + addr})
			c := buyersOf(before.sale(t, 1000), 1000, tokens[:1200])
			through, err := rush.NewClient(front, 256)
			require.NoError(t, err)
			t.Cleanup(through.Close)
			c.Clients = []*rush.Client{through}
			eventually(t, "the proxy has found the server", proxy.ready[0].Load)
			wait := longRush(t, s, c, 12*time.Second)
			after := s.spawn(t, addr)
			eventually(t, "the proxy has found the new server", proxy.ready[1].Load)
			require.Positive(t, s.count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+c.VoucherID), "both versions sell")
			r := wait()
			c.Clients = []*rush.Client{after.Client}
			requireSoldOut(t, s, c, r)
			requireInvariants(t, s, c, r)

			before.stop(t)
			again := old.spawn(t, "")
			requireReady(t, again)
			sale := after.sale(t, 1)
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			o := orderers{client: client, url: again.url + "/api/v1/vouchers/" + sale + "/orders", tokens: tokens[1200:]}
			require.NoError(t, o.place(0))
			requireSettled(t, s)
			s.verify(t)
		})
	}
}

// seed creates n buyers with the program of the stack and returns their access tokens.
func (s *stack) seed(t *testing.T, n int) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	code, out := s.run(t, "seed", "--users", fmt.Sprint(n), "--tokens", file)
	require.Zero(t, code, out)
	lines, err := os.ReadFile(file)
	require.NoError(t, err)
	tokens := strings.Fields(string(lines))
	require.Len(t, tokens, n)
	for i, line := range tokens {
		_, tokens[i], _ = strings.Cut(line, ",") // a line is "user id,token"
	}
	return tokens
}
