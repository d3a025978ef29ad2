package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
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
