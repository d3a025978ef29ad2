package main

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/repo"
	"seckill/test/env"
	"seckill/test/env/servers"
)

func TestAnswersAreComparedWithTheDatabase(t *testing.T) {
	env.Full(t)
	ctx := t.Context()
	dsn := env.MariaDB.DSN(t)
	store := env.Must(repo.OpenMySQL(dsn))(t)
	t.Cleanup(func() { _ = store.Close() })
	env.Must(store.MigrateUp(ctx))(t)
	now := time.Now().UTC()
	env.Must(store.SeedUsers(ctx, 30, now, now.Add(time.Hour)))(t)

	s := &stack{db: env.OpenDB(t, dsn), tokens: make([]string, 30)}
	require.NoError(t, s.fill(ctx, 100))

	require.NoError(t, s.committed(ctx, []string{"1", "4"}, 40))
	require.ErrorIs(t, s.committed(ctx, []string{"1", "4"}, 41), errInconsistent)

	m := &sample{counts: 30}
	_, err := s.db.ExecContext(ctx, "UPDATE seckill_vouchers SET stock = 10 WHERE voucher_id = 1") // ten are not committed yet
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = s.watchWorkers(short, m, []string{"1"})
	require.ErrorIs(t, err, errInconsistent)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, int64(10), m.backlog)

	env.Must(s.db.ExecContext(ctx, "UPDATE seckill_vouchers SET stock = 0 WHERE voucher_id = 1"))(t)
	require.NoError(t, s.watchWorkers(ctx, m, []string{"1"}))
	assert.Positive(t, m.drained)
	assert.Zero(t, m.backlog)
}

func TestMain(m *testing.M) { env.Main(m) }

func getRequest(path string) []byte { return httpRequest(http.MethodGet, path, "") }

// serve starts a server of the test, and returns it as a load addresses it.
func serve(t *testing.T, answer http.HandlerFunc) []*process {
	srv := httptest.NewServer(answer)
	t.Cleanup(srv.Close)
	return []*process{{Process: &servers.Process{Addr: srv.Listener.Addr().String()}}}
}

func TestLoadSendsEachRequestOnce(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	these := serve(t, func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if r.URL.Path == "/none" {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"code":"sold_out"}`)
		}
	})
	l := load{servers: these, conns: 3, limit: time.Minute}
	for range 10 {
		l.requests = append(l.requests, getRequest("/"), getRequest("/none"))
	}
	r := env.Must(l.run(t.Context(), new(atomic.Bool)))(t)
	assert.Equal(t, map[string]int64{"200": 10, "sold_out": 10}, r.answers)
	assert.Equal(t, int64(20), r.total())
	assert.Equal(t, int64(20), served.Load())
	require.ErrorIs(t, r.only("200"), errWrongAnswers)
	require.NoError(t, r.only("200", "sold_out"))

	l.endless, l.limit = true, 50*time.Millisecond
	r = env.Must(l.run(t.Context(), new(atomic.Bool)))(t)
	assert.Equal(t, served.Load()-20, r.total(), "all answers are counted")
}

// The first load sends two requests. The second one would run for a minute.
func TestFirstLoadEndsTheOthers(t *testing.T) {
	t.Parallel()
	these := serve(t, func(http.ResponseWriter, *http.Request) {})
	short := load{subject: "short", servers: these, conns: 1, requests: [][]byte{getRequest("/"), getRequest("/")}, limit: time.Minute}
	long := load{subject: "long", servers: these, conns: 2, requests: short.requests, limit: time.Minute, endless: true}
	results := env.Must(runLoads(t.Context(), short, long))(t)
	assert.Equal(t, int64(2), results[0].total())
	assert.Less(t, results[1].elapsed, time.Minute)

	short.subject = "broken"
	short.servers = []*process{{Process: &servers.Process{Addr: "127.0.0.1:1"}}}
	env.Fails(runLoads(t.Context(), long, short))(t, "broken, 1 connections")
}

func TestMissingAnswersFailTheLoad(t *testing.T) {
	t.Parallel()
	these := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	l := load{servers: these, conns: 4, requests: [][]byte{getRequest("/")}, endless: true, limit: time.Minute}
	env.Fails(l.run(t.Context(), new(atomic.Bool)))(t, io.EOF)

	env.Fails(l.run(env.Cancelled(t.Context()), new(atomic.Bool)))(t, context.Canceled)
	require.ErrorIs(t, (&sample{}).only("201"), errWrongAnswers, "without answers there is no success")
}

func TestPercentile(t *testing.T) {
	m := &sample{}
	assert.True(t, math.IsNaN(m.millis(50)))
	for n := range time.Duration(200) {
		m.latencies = append(m.latencies, (n+1)*time.Millisecond)
	}
	for p, want := range map[float64]float64{0.1: 1, 50: 100, 99: 198, 100: 200} {
		assert.InDelta(t, want, m.millis(p), 0)
	}
}

// ranOnce returns a sample of n answers.
func ranOnce(subject string, n int, elapsed time.Duration) *sample {
	used := usage{server: time.Duration(n) * 5 * time.Microsecond, client: time.Duration(n) * 2 * time.Microsecond}
	return &sample{subject: subject, elapsed: elapsed, counts: int64(n), used: used}
}

func TestRatiosCompareRunsOfOneRound(t *testing.T) {
	s := &section{samples: []*sample{
		ranOnce("a", 100, time.Second), ranOnce("b", 200, time.Second),
		ranOnce("b", 100, 2*time.Second), ranOnce("a", 100, time.Second),
		ranOnce("a", 300, time.Second), ranOnce("b", 200, time.Second),
	}}
	assert.Equal(t, []float64{0.5, 2, 1.5}, s.ratios("a", "b", (*sample).rate))
	assert.Equal(t, []float64{1, 1, 1}, s.ratios("a", "b", (*sample).systemCPU))
	assert.Equal(t, []float64{1, 1, 1}, s.ratios("a", "b", (*sample).allCPU))
	assert.Empty(t, s.ratios("a", "unknown", (*sample).rate))
}

func TestCostIsPerCountedAnswer(t *testing.T) {
	m := ranOnce("a", 100, time.Second)
	m.counts = 50
	assert.InDelta(t, 50, m.rate(), 0)
	assert.InDelta(t, 14, m.allCPU(), 0)
	m.shared = 200 // including the answers of another load
	assert.InDelta(t, 50, m.rate(), 0)
	assert.InDelta(t, 3.5, m.allCPU(), 0)
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		bar    bar
		wanted string
		met    string
	}{
		{bar{values: []float64{0.4, 0.45, 9}, least: 0.45}, "≥ 0.45", "met"},
		{bar{values: []float64{0.44}, least: 0.45}, "≥ 0.45", "**missed**"},
		{bar{values: []float64{1.2}, most: 1.2}, "≤ 1.20", "met"},
		{bar{values: []float64{1.1, 1.2, 1.3, 9}, most: 1.2}, "≤ 1.20", "**missed**"},
		{bar{least: 6}, "≥ 6", "not measured"},
	} {
		assert.Equal(t, c.wanted, c.bar.wanted())
		assert.Equal(t, c.met, c.bar.verdict(), "%v", c.bar)
	}
}
