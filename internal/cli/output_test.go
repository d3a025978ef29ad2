package cli

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCountHasSingularAndPlural(t *testing.T) {
	require.Equal(t, "0 violations", count(0, "violation"))
	require.Equal(t, "1 violation", count(1, "violation"))
	require.Equal(t, "2 violations", count(2, "violation"))
}

func TestResultsAreColored(t *testing.T) {
	var out bytes.Buffer
	text := "I1 No oversell  holds   100 sold of 100\nI2 One order  BROKEN  a broken lookup\n"
	n, err := colorWriter{&out}.Write([]byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
	require.Equal(t, "I1 No oversell  \x1b[32mholds\x1b[0m   100 sold of 100\nI2 One order  \x1b[31mBROKEN\x1b[0m  a broken lookup\n", out.String())
}

func TestOnlyTerminalsHaveColors(t *testing.T) {
	var buffer bytes.Buffer
	require.Equal(t, &buffer, colored(&buffer))
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	require.Equal(t, file, colored(file))
}

func TestProgressEstimatesRest(t *testing.T) {
	var out bytes.Buffer
	printProgress(&out, 0, 400, 0, time.Second)
	printProgress(&out, 100, 400, 20, 2*time.Second)
	printProgress(&out, 400, 400, 80, 8*time.Second)
	require.Equal(t, "  0 of 400 answered, 0 orders\n  100 of 400 answered, 20 orders, about 6s left\n  400 of 400 answered, 80 orders\n", out.String())
}
