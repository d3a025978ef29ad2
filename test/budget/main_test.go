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
	tests, err := read(strings.NewReader(`{"Action":"run","Package":"seckill/a","Test":"TestA"}
{"Action":"output","Package":"seckill/a","Test":"TestA","Output":"text"}
{"Action":"pass","Package":"seckill/a","Test":"TestA/b/c","Elapsed":2.5}
{"Action":"pass","Package":"seckill/a","Test":"TestA/b","Elapsed":2.5}
{"Action":"pass","Package":"seckill/a","Test":"TestA","Elapsed":0}
{"Action":"fail","Package":"seckill/b","Test":"TestD","Elapsed":11}
{"Action":"skip","Package":"seckill/b","Test":"TestE","Elapsed":0}
{"Action":"pass","Package":"seckill/b","Elapsed":14}
`))
	require.NoError(t, err)

	var out strings.Builder
	require.Empty(t, judge(&out, tests, 0, 0), "no limits")
	require.Contains(t, out.String(), "   11.0 s  b TestD\n    2.5 s  a TestA/b/c\n   13.5 s  all 2 tests\n")

	require.Empty(t, judge(io.Discard, tests, 14*time.Second, 11*time.Second))
	require.Equal(t, []string{"b TestD takes 11.0 s", "all tests take 14 s"}, judge(io.Discard, tests, 13*time.Second, 10*time.Second))

	_, err = read(strings.NewReader("no JSON\n"))
	require.Error(t, err)
}
