package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// metricsText returns metrics with the given numbers of answers.
func metricsText(ok, refused, notReady int) string {
	return fmt.Sprintf(`# TYPE seckill_http_requests counter
seckill_http_requests_total{method="GET",route="/api/v1/me",status="200"} %d.0
seckill_http_requests_total{method="POST",route="/api/v1/vouchers/:id/orders",status="503"} %d.0 # {trace_id="1"} 1.0
seckill_http_requests_total{method="GET",route="/readyz",status="503"} %d.0
`, ok, refused, notReady)
}

// TestRefusalsAreJudged: a server that refuses nine of ten requests is found, one that is busy or not ready is not.
func TestRefusalsAreJudged(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, rig.JudgeRefusals(metricsText(10, 90, 0)), "90 of 100 requests were answered 503")
	require.Error(t, rig.JudgeRefusals(metricsText(0, 21, 0)))
	require.NoError(t, rig.JudgeRefusals(metricsText(50, 50, 0)))
	require.NoError(t, rig.JudgeRefusals(metricsText(1, 20, 0)), "a busy machine")
	require.NoError(t, rig.JudgeRefusals(metricsText(10, 0, 90)), "probes")
	overloads := `seckill_order_seconds_count{lane="queue",outcome="overloaded"} 85.0` + "\n"
	require.NoError(t, rig.JudgeRefusals(metricsText(10, 100, 0)+overloads), "more buyers than the server decides on at once")
	require.Error(t, rig.JudgeRefusals(metricsText(10, 110, 0)+overloads))
	require.NoError(t, rig.JudgeRefusals(""), "a server without an ops address")
}

// TestForgivenIsCounted: the last line of a run says what the helpers repeated.
func TestForgivenIsCounted(t *testing.T) {
	t.Parallel()
	var f rig.Tally
	for range 10 {
		f.AddServer()
	}
	f.Add(rig.ForgivenAnswer)
	f.Add(rig.ForgivenAnswer)
	f.Add(rig.ForgivenDial)
	require.Equal(t, "rig: forgave 2 answers 503, 1 dial time-outs, 0 time-outs of pages and 0 commands without an answer in time of 10 servers", f.String())
}
