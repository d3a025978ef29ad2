package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, func() error { return goleak.Find() })
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o, err := parseOptions(nil, t.Output())
	require.NoError(t, err)
	assert.Equal(t, "loadtest/RESULTS.md", o.out)
	o, err = parseOptions([]string{"-quick", "-rounds", "2", "-seconds", "0.25", "-only", "lock,batch"}, t.Output())
	require.NoError(t, err)
	assert.Empty(t, o.out)
	assert.Equal(t, 2, o.rounds)
	assert.Equal(t, 250*time.Millisecond, o.seconds)
	assert.Equal(t, []string{"lock", "batch"}, o.only)
	for _, args := range [][]string{{"-only", "nothing"}, {"-lanes", ""}, {"-lanes", "fast"}, {"-rounds", "0"}, {"more"}} {
		_, err := parseOptions(args, t.Output())
		require.Error(t, err, args)
	}
}
