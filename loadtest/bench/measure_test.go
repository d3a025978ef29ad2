package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOneRequestInTenIsRepeated(t *testing.T) {
	t.Parallel()
	requests := make([][]byte, 1800)
	for i := range requests {
		requests[i] = fmt.Append(nil, i)
	}
	all := withRepeats(requests, 64)
	sent := map[string]int{} // position of the first occurrence
	var atOnce, later int
	for i, r := range all {
		first, again := sent[string(r)]
		switch {
		case !again:
			sent[string(r)] = i
		case first == i-1:
			atOnce++
		default:
			later++
			assert.GreaterOrEqual(t, i-first, 64)
		}
	}
	assert.Len(t, sent, len(requests), "every request is sent")
	assert.InDelta(t, len(all)/10, atOnce+later, 5, "one in ten is a repetition")
	assert.InDelta(t, atOnce, later, 5)
}

func TestOrderRequest(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "k"} {
		text := string(orderRequest("7", "abc", key, ""))
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		require.NoError(t, err)
		assert.Equal(t, "POST /api/v1/vouchers/7/orders", req.Method+" "+req.URL.Path)
		assert.Equal(t, "Bearer abc", req.Header.Get("Authorization"))
		assert.Equal(t, key, req.Header.Get("Idempotency-Key"))
		assert.Equal(t, key != "", strings.Contains(text, "Idempotency-Key"))
	}
}

func TestRequestsAreSpreadOverSales(t *testing.T) {
	t.Parallel()
	s := &stack{tokens: []string{"a", "b", "c"}}
	plain := s.requests([]string{"7", "8"}, clicks{}, 1)
	assert.Equal(t, [][]byte{orderRequest("7", "a", "", ""), orderRequest("8", "b", "", ""), orderRequest("7", "c", "", "")}, plain)
	keyed := s.requests([]string{"7", "8"}, clicks{keyed: true}, 1)
	assert.Contains(t, string(keyed[1]), "Idempotency-Key: 8e03978e-40d5-43e8-bc93-000000000008\r\n", "as long as a UUID")
}

func TestCountersAreSummed(t *testing.T) {
	t.Parallel()
	ops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "# HELP x y\ngo_memstats_mallocs_total 1.5e+06\nseckill_batch_size_sum 70\n")
	}))
	t.Cleanup(ops.Close)
	server := &process{ops: ops.Listener.Addr().String()}
	c := countersOf(t.Context(), []*process{server, server})
	assert.InDelta(t, 3e6, c.mallocs, 0)
	assert.InDelta(t, 140, c.batched, 0)
	assert.NotEqual(t, c.batches, c.batches, "a metric that is missing is NaN") //nolint:testifylint // NaN
	c = countersOf(t.Context(), []*process{server, {}})
	assert.NotEqual(t, c.mallocs, c.mallocs, "a server without metrics")
}

func TestParseRush(t *testing.T) {
	t.Parallel()
	orders, elapsed, err := parseRush("sale 5: 2000 units\n2000 durable orders in 0.14s, 14055 a second; all answered in 0.40s\nlatency")
	require.NoError(t, err)
	assert.Equal(t, int64(2000), orders)
	assert.InDelta(t, 142*time.Millisecond, elapsed, float64(time.Millisecond))
	for _, out := range []string{"", "0 durable orders in 0.00s, 0 a second"} {
		_, _, err = parseRush(out)
		require.ErrorIs(t, err, errRushLine, out)
	}
}
