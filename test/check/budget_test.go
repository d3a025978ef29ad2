package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBudget: a test with subtests counts by these, whether they are in parallel (0 s of its own) or not.
func TestBudget(t *testing.T) {
	t.Parallel()
	tests, took, err := readRun(strings.NewReader(`{"Time":"2026-11-11T12:00:00Z","Action":"run","Package":"seckill/a","Test":"TestA"}
{"Action":"output","Package":"seckill/a","Test":"TestA","Output":"text"}
{"Action":"pass","Package":"seckill/a","Test":"TestA/b/c","Elapsed":2.5}
{"Action":"pass","Package":"seckill/a","Test":"TestA/b","Elapsed":2.5}
{"Action":"pass","Package":"seckill/a","Test":"TestA","Elapsed":0}
{"Action":"fail","Package":"seckill/b","Test":"TestD","Elapsed":11}
{"Action":"skip","Package":"seckill/b","Test":"TestE","Elapsed":0}
{"Time":"2026-11-11T12:00:12.5Z","Action":"pass","Package":"seckill/b","Elapsed":11.5}
`))
	require.NoError(t, err)

	var out strings.Builder
	require.Empty(t, judge(&out, tests, took, 0, 0), "no limits")
	require.Contains(t, out.String(), "   11.0 s  b TestD\n    2.5 s  a TestA/b/c\n   12.5 s  all 2 tests, beside each other\n")

	require.Empty(t, judge(io.Discard, tests, took, 13*time.Second, 11*time.Second))
	require.Equal(t, []string{"b TestD takes 11.0 s", "all tests take 12 s"}, judge(io.Discard, tests, took, 12*time.Second, 10*time.Second))

	_, _, err = readRun(strings.NewReader("no JSON\n"))
	require.Error(t, err)
}
