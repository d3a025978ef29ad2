package rig

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
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
	require.ErrorContains(t, judgeRefusals(metricsText(10, 90, 0)), "90 of 100 requests were answered 503")
	require.Error(t, judgeRefusals(metricsText(0, 21, 0)))
	require.NoError(t, judgeRefusals(metricsText(50, 50, 0)))
	require.NoError(t, judgeRefusals(metricsText(1, 20, 0)), "a busy machine")
	require.NoError(t, judgeRefusals(metricsText(10, 0, 90)), "probes")
	overloads := `seckill_order_seconds_count{lane="queue",outcome="overloaded"} 85.0` + "\n"
	require.NoError(t, judgeRefusals(metricsText(10, 100, 0)+overloads), "more buyers than the server decides on at once")
	require.Error(t, judgeRefusals(metricsText(10, 110, 0)+overloads))
	require.NoError(t, judgeRefusals(""), "a server without an ops address")
}

// TestForgivenIsCounted: the last line of a run says what the helpers repeated.
func TestForgivenIsCounted(t *testing.T) {
	t.Parallel()
	f := tally{counts: map[string]int{}}
	for range 10 {
		f.addServer()
	}
	f.add(forgivenAnswer)
	f.add(forgivenAnswer)
	f.add(forgivenDial)
	require.Equal(t, "rig: forgave 2 answers 503, 1 dial time-outs, 0 time-outs of pages and 0 commands without an answer in time of 10 servers", f.String())
}
