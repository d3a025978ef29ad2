package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCountHasSingularAndPlural(t *testing.T) {
	require.Equal(t, "0 violations", count(0, "violation"))
	require.Equal(t, "1 violation", count(1, "violation"))
	require.Equal(t, "2 violations", count(2, "violation"))
}

func TestProgressEstimatesRest(t *testing.T) {
	var out bytes.Buffer
	printProgress(&out, 0, 400, 0, time.Second)
	printProgress(&out, 100, 400, 20, 2*time.Second)
	printProgress(&out, 400, 400, 80, 8*time.Second)
	require.Equal(t, "  0 of 400 answered, 0 orders\n  100 of 400 answered, 20 orders, about 6s left\n  400 of 400 answered, 80 orders\n", out.String())
}
