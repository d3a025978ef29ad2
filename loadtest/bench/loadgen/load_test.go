package loadgen

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func getRequest(path string) []byte { return Request(http.MethodGet, path, "", "") }

func TestLoadSendsEachRequestOnce(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if r.URL.Path == "/none" {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"code":"sold_out"}`)
		}
	}))
	t.Cleanup(srv.Close)
	l := Load{Addrs: []string{srv.Listener.Addr().String()}, Conns: 3, Limit: time.Minute}
	for range 10 {
		l.Requests = append(l.Requests, getRequest("/"), getRequest("/none"))
	}
	r, err := l.run(t.Context(), new(atomic.Bool))
	require.NoError(t, err)
	assert.Equal(t, map[string]int64{"200": 10, "sold_out": 10}, r.Answers)
	assert.Equal(t, int64(20), r.Total())
	assert.Equal(t, int64(20), served.Load())
	require.ErrorIs(t, r.Only("200"), ErrWrongAnswers)
	require.NoError(t, r.Only("200", "sold_out"))
	assert.Equal(t, int64(10), r.Count("200", "201"))

	l.Endless, l.Limit = true, 50*time.Millisecond
	r, err = l.run(t.Context(), new(atomic.Bool))
	require.NoError(t, err)
	assert.Equal(t, served.Load()-20, r.Total(), "all answers are counted")
}

func TestPaceLimitsTheRate(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	l := Load{Addrs: []string{srv.Listener.Addr().String()}, Conns: 1, Requests: [][]byte{getRequest("/")}, Endless: true,
		Limit: 400 * time.Millisecond, Pace: 200 * time.Millisecond}
	latency := l.Pace
	for try := 0; try < 5 && latency >= l.Pace; try++ { // an answer may be late; a pause that counts is in every try
		r, err := l.run(t.Context(), new(atomic.Bool))
		require.NoError(t, err)
		require.LessOrEqual(t, r.Total(), int64(3))
		latency = r.Latency.Percentile(1)
	}
	assert.Less(t, latency, l.Pace, "the pause is not part of the latency")
}

// The first load sends two requests. The second one would run for a minute.
func TestFirstLoadEndsTheOthers(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	addrs := []string{srv.Listener.Addr().String()}
	short := Load{Name: "short", Addrs: addrs, Conns: 1, Requests: [][]byte{getRequest("/"), getRequest("/")}, Limit: time.Minute}
	long := Load{Name: "long", Addrs: addrs, Conns: 2, Requests: short.Requests, Limit: time.Minute, Endless: true}
	results, err := Run(t.Context(), short, long)
	require.NoError(t, err)
	assert.Equal(t, int64(2), results[0].Total())
	assert.Less(t, results[1].Elapsed, time.Minute)

	short.Name, short.Addrs = "broken", []string{"127.0.0.1:1"}
	_, err = Run(t.Context(), long, short)
	require.ErrorContains(t, err, "broken, 1 connections")
}

func TestMissingAnswersFailTheLoad(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(srv.Close)
	l := Load{Addrs: []string{srv.Listener.Addr().String()}, Conns: 4, Requests: [][]byte{getRequest("/")}, Endless: true, Limit: time.Minute}
	_, err := l.run(t.Context(), new(atomic.Bool))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.run(ctx, new(atomic.Bool))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, (&Result{}).Only("201"), ErrWrongAnswers, "without answers there is no success")
}

func TestBucketsCoverAllValues(t *testing.T) {
	t.Parallel()
	last := -1
	for _, v := range []int64{-1, 0, 1, 31, 32, 63, 64, 65, 66, 127, 128, 1000, 1e6, 60e6, 3600e6, 1 << 62} {
		d := time.Duration(min(v, 1<<50)) * time.Microsecond
		i := bucketOf(d)
		require.GreaterOrEqual(t, i, max(last, 0), "a longer value has no lower bucket")
		require.Less(t, i, buckets)
		last = i
		if v < 3600e6 {
			require.GreaterOrEqual(t, upperBound(i), d)
			require.LessOrEqual(t, upperBound(i)-max(d, 0), max(d, 0)/32+time.Microsecond)
		}
	}
	for i := range buckets - 1 {
		require.Equal(t, i, bucketOf(upperBound(i)))
		require.Equal(t, i+1, bucketOf(upperBound(i)+1), "no gap after bucket %d", i)
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var a, b Histogram
	assert.Zero(t, a.Percentile(50))
	rnd := rand.New(rand.NewPCG(1, 2))
	all := make([]time.Duration, 10_000)
	for i := range all {
		all[i] = time.Duration(rnd.ExpFloat64() * float64(10*time.Millisecond))
		[]*Histogram{&a, &b}[i%2].Add(all[i])
	}
	a.merge(&b)
	slices.Sort(all)
	for _, p := range []float64{0.01, 50, 95, 99, 99.99} {
		exact := all[int(p*float64(len(all))/100+0.5)-1]
		assert.InDelta(t, exact, a.Percentile(p), float64(exact)/32+1000, "p%v", p)
		assert.GreaterOrEqual(t, a.Percentile(p), exact.Truncate(time.Microsecond))
	}
	assert.Equal(t, all[len(all)-1], a.Percentile(100))
	assert.Equal(t, uint64(len(all)), a.n)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
