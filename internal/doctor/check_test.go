package doctor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func result(r Result) Check {
	return Check{Name: string(r.Status), Run: func(context.Context) Result { return r }}
}

// TestWhatWasNotReachedIsSkipped: the rest of a group is asked only after its server has answered.
func TestWhatWasNotReachedIsSkipped(t *testing.T) {
	t.Parallel()
	never := Check{Name: "never", Run: func(context.Context) Result { panic("it was asked") }}
	found := Run(t.Context(), []Group{
		{On: "a", Reach: result(Unanswered(errors.New("gone"), "start it")), Checks: []Check{never}},
		{Reach: result(Result{Status: Skipped, Found: "there is none"}), Checks: []Check{never}},
		{Reach: result(Bad(Warn, "", "old")), Checks: []Check{result(Good("well"))}},
		{Checks: []Check{result(Good("alone"))}},
	})
	assert.Equal(t, []Finding{
		{Check: "fail", On: "a", Result: Result{Status: Fail, Found: "gone", Change: "start it", Unasked: true, Heard: "gone"}},
		{Check: "never", On: "a", Result: Result{Status: Skipped, Found: "it was not reached: see fail"}},
		{Check: "skipped", Result: Result{Status: Skipped, Found: "there is none"}},
		{Check: "never", Result: Result{Status: Skipped, Found: "there is none"}},
		{Check: "warn", Result: Result{Status: Warn, Found: "old"}},
		{Check: "ok", Result: Good("well")},
		{Check: "ok", Result: Good("alone")},
	}, found)
}

// TestMasked: secrets are taken out of what an error says, and of nothing else.
func TestMasked(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "the redis said: no ***", Heard(Fail, "", "the redis said: ", errors.New("no redis")).Masked([]string{"redis"}))
	assert.Equal(t, "use redis", Good("use redis").Masked([]string{"redis"}))
	assert.Equal(t, "no *** to ***", Unanswered(errors.New("no\nway to go"), "").Masked([]string{"way", "go"}))
	found := Run(t.Context(), []Group{{Reach: result(Heard(Skipped, "", "", errors.New("my password"))), Checks: []Check{result(Good(""))}}})
	assert.Equal(t, "my ***", found[1].Masked([]string{"password"}))
}

// TestChecksRunSideBySide: each waits for the other to begin.
func TestChecksRunSideBySide(t *testing.T) {
	t.Parallel()
	meet := make(chan struct{})
	wait := func(ctx context.Context) Result {
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-ctx.Done():
			return Unanswered(ctx.Err(), "")
		}
		return Good("met")
	}
	pair := []Check{{Name: "a", Run: wait, Deadline: time.Minute}, {Name: "b", Run: wait, Deadline: time.Minute}}
	for _, groups := range [][]Group{{{Checks: pair}}, {{Checks: pair[:1]}, {Checks: pair[1:]}}} {
		for _, f := range Run(t.Context(), groups) {
			require.Equal(t, OK, f.Status)
		}
	}
}

// TestDeadlines: a check whose server hangs ends by itself, and says so.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) Result { <-ctx.Done(); return Unanswered(ctx.Err(), "") }
	found := Run(t.Context(), []Group{{Checks: []Check{{Name: "own", Deadline: time.Millisecond, Run: hang}, {Name: "common", Run: hang}}}})
	for _, f := range found {
		require.Equal(t, Fail, f.Status)
		require.True(t, f.Unasked)
		require.Contains(t, f.Found, "hangs")
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ahead, uncertain time.Duration
		want             Status
		found            string
	}{
		{0, time.Millisecond, OK, "0s ahead of ours (give or take 1ms)"},
		{500 * time.Millisecond, 0, OK, "500ms ahead"},
		{600 * time.Millisecond, 0, Warn, "600ms ahead"},
		{-600 * time.Millisecond, 0, Warn, "600ms behind"},
		{600 * time.Millisecond, 200 * time.Millisecond, OK, "give or take 200ms"}, // the network may explain it
		{-3 * time.Second, time.Millisecond, Fail, "3s behind"},
	} {
		r := skew{tc.ahead, tc.uncertain}.result(500*time.Millisecond, 2*time.Second, "cost")
		assert.Equal(t, tc.want, r.Status, tc)
		assert.Contains(t, r.Found, tc.found)
		assert.Equal(t, tc.want != OK, r.Change != "")
	}

	// A server that is 3 s ahead, and once takes long to answer.
	calls := 0
	s, err := measureSkew(t.Context(), time.Now, func(context.Context) (time.Time, error) {
		if calls++; calls == 1 {
			defer time.Sleep(time.Second)
		}
		return time.Now().Add(3 * time.Second), nil
	})
	require.NoError(t, err)
	require.InDelta(t, 3*time.Second, s.ahead, float64(s.uncertain+time.Millisecond))
	require.Less(t, s.uncertain, 500*time.Millisecond, "the fastest answer is believed")
}

func TestLatency(t *testing.T) {
	t.Parallel()
	assert.Equal(t, OK, latency(5*time.Millisecond, "cost", "change").Status)
	r := latency(6*time.Millisecond, "it costs", "move it")
	assert.Equal(t, Warn, r.Status)
	assert.Contains(t, r.Found, "it costs")
	assert.Equal(t, "move it", r.Change)

	n := 0
	median, err := probe(t.Context(), func(context.Context) error {
		if n++; n <= probes/2 { // fewer than half are slow
			time.Sleep(500 * time.Millisecond)
		}
		return nil
	})
	require.NoError(t, err)
	require.Less(t, median, 500*time.Millisecond)
}
