package doctor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func result(r Result) Check {
	return Check{Name: string(r.Status), Run: func(context.Context) Result { return r }}
}

func TestChecksOfUnreachedServerAreSkipped(t *testing.T) {
	t.Parallel()
	never := Check{Name: "never", Run: func(context.Context) Result { panic("the check ran") }}
	found := Run(t.Context(), []Group{
		{On: "a", Reach: result(Unanswered(errors.New("gone"), "start it")), Checks: []Check{never}},
		{Reach: result(Result{Status: Skipped, Found: "there is none"}), Checks: []Check{never}},
		{Reach: result(Bad(Warn, "", "old")), Checks: []Check{result(Good("well"))}},
		{Checks: []Check{result(Good("alone"))}},
	})
	assert.Equal(t, []Finding{
		{Check: "fail", On: "a", Result: Result{Status: Fail, Found: "gone", Change: "start it", Unasked: true, ErrorText: "gone"}},
		{Check: "never", On: "a", Result: Result{Status: Skipped, Found: "the server was not reached: see fail"}},
		{Check: "skipped", Result: Result{Status: Skipped, Found: "there is none"}},
		{Check: "never", Result: Result{Status: Skipped, Found: "there is none"}},
		{Check: "warn", Result: Result{Status: Warn, Found: "old"}},
		{Check: "ok", Result: Good("well")},
		{Check: "ok", Result: Good("alone")},
	}, found)
}

func TestMaskedRemovesSecretsOfErrorsOnly(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "redis error: no ***", FromError(Fail, "", "redis error: ", errors.New("no redis")).Masked([]string{"redis"}))
	assert.Equal(t, "use redis", Good("use redis").Masked([]string{"redis"}))
	assert.Equal(t, "no *** to ***", Unanswered(errors.New("no\nway to go"), "").Masked([]string{"way", "go"}))
	found := Run(t.Context(), []Group{{Reach: result(FromError(Skipped, "", "", errors.New("my password"))), Checks: []Check{result(Good(""))}}})
	assert.Equal(t, "my ***", found[1].Masked([]string{"password"}))
}

// Each check waits until the other one runs.
func TestChecksRunConcurrently(t *testing.T) {
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

func TestHangingCheckEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) Result { <-ctx.Done(); return Unanswered(ctx.Err(), "") }
	for _, tc := range []struct{ own, want time.Duration }{{time.Millisecond, time.Millisecond}, {0, deadline}} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			f := Run(t.Context(), []Group{{Checks: []Check{{Deadline: tc.own, Run: hang}}}})[0]
			require.Equal(t, Fail, f.Status)
			require.True(t, f.Unasked)
			require.Contains(t, f.Found, "hangs")
			require.Equal(t, tc.want, time.Since(begin))
		})
	}
}

func TestClockSkew(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ahead, uncertain time.Duration
		want             Status
		found            string
	}{
		{0, time.Millisecond, OK, "0s ahead of the local clock (± 1ms)"},
		{500 * time.Millisecond, 0, OK, "500ms ahead"},
		{600 * time.Millisecond, 0, Warn, "600ms ahead"},
		{-600 * time.Millisecond, 0, Warn, "600ms behind"},
		{600 * time.Millisecond, 200 * time.Millisecond, OK, "± 200ms"}, // within the error of the measurement
		{-3 * time.Second, time.Millisecond, Fail, "3s behind"},
	} {
		r := skew{tc.ahead, tc.uncertain}.result(500*time.Millisecond, 2*time.Second, "cost")
		assert.Equal(t, tc.want, r.Status, tc)
		assert.Contains(t, r.Found, tc.found)
		assert.Equal(t, tc.want != OK, r.Change != "")
	}
}

// The server is 3 s ahead, and its first answer takes a second.
func TestMeasureSkewUsesTheFastestAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s, err := measureSkew(t.Context(), time.Now, func(context.Context) (time.Time, error) {
			if calls++; calls == 1 {
				defer time.Sleep(time.Second)
			}
			time.Sleep(time.Millisecond)
			return time.Now().Add(3 * time.Second), nil
		})
		require.NoError(t, err)
		require.Equal(t, skew{3*time.Second + time.Millisecond/2, time.Millisecond / 2}, s)
	})
}
