// Package ops_test has the tests of what an operator looks at, if they need nothing that is not exported: one program costs a
// second of linking less than two.
package ops_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"seckill/internal/domain"
	"seckill/internal/ops/rush"
	"seckill/internal/ops/tracing"
	"seckill/internal/sale/lane"
	"seckill/test/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeServer answers with the results of its functions, which may be false.
type fakeServer struct {
	mu    sync.Mutex
	tries map[string]int
	place func(token string, try int) (status int, body any)
	stock int64
	held  map[string][]rush.Order
	// busy is the number of reads that are answered 503 first.
	busy int
	// watch answers GET /orders/{id}, which lane queue needs.
	watch func(id string) (int, any)
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	var body any
	status := http.StatusOK
	switch {
	case r.Method == http.MethodPost:
		f.tries[token]++
		status, body = f.place(token, f.tries[token])
	case f.busy > 0:
		f.busy--
		status, body = problem(http.StatusServiceUnavailable, "unavailable")
	case strings.HasSuffix(r.URL.Path, "/orders"):
		body = map[string]any{"items": f.held[token]}
	case strings.Contains(r.URL.Path, "/orders/"):
		status, body = f.watch(path.Base(r.URL.Path))
	default:
		body = rush.Voucher{ID: "7", Stock: f.stock}
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func problem(status int, code string) (int, any) {
	return status, rush.Problem{Status: status, Code: code}
}

// run lets the buyers a, b and c order from a sale of 2 units. It returns the report and the IDs of the broken
// invariants.
func (f *fakeServer) run(t *testing.T, edits ...func(*rush.Buyers)) (*rush.Report, []string) {
	t.Helper()
	f.tries = map[string]int{}
	srv := httptest.NewServer(f)
	defer srv.Close()
	client := env.Must(rush.NewClient(srv.URL, 4))(t)
	defer client.Close()
	c := &rush.Buyers{Clients: []*rush.Client{client}, VoucherID: "7", Stock: 2, Tokens: []string{"a", "b", "c"}, Parallel: 3}
	for _, edit := range edits {
		edit(c)
	}
	r := c.Run(t.Context())
	verdicts := env.Must(c.Check(t.Context(), r))(t)
	var broken []string
	for _, v := range verdicts {
		if v.Broken() {
			broken = append(broken, v.ID)
		}
	}
	return r, broken
}

func order(id string) rush.Order {
	return rush.Order{ID: id, VoucherID: "7", Status: "pending_payment"}
}

func honest() *fakeServer {
	return &fakeServer{
		held: map[string][]rush.Order{"a": {order("1")}, "b": {order("2")}},
		place: func(token string, _ int) (int, any) {
			switch token {
			case "a":
				return http.StatusCreated, order("1")
			case "b":
				return http.StatusCreated, order("2")
			}
			return problem(http.StatusConflict, "sold_out")
		},
	}
}

// The first reads are refused, and so are the first requests of a with answers that leave the outcome open.
func TestTrueAnswersBreakNoInvariant(t *testing.T) {
	t.Parallel()
	f := honest()
	f.busy = 5
	open := []string{"order_in_progress", "rate_limited", "overloaded", "unavailable"}
	answer := f.place
	f.place = func(token string, try int) (int, any) {
		if token == "a" && try <= len(open) {
			return problem(http.StatusServiceUnavailable, open[try-1])
		}
		return answer(token, try)
	}

	// They arrive one third of a time after each other.
	const step = 20 * time.Millisecond
	r, broken := f.run(t, func(b *rush.Buyers) { b.For = 3 * step })
	require.Empty(t, broken)
	orders, last := r.Orders()
	require.Equal(t, 2, orders)
	require.Positive(t, last)
	require.Equal(t, map[string]int{"ok": 2, "sold_out": 1, open[0]: 1, open[1]: 1, open[2]: 1, open[3]: 1}, r.Codes)
	require.Equal(t, []int{5, 1, 1}, []int{r.Answers[0].Tries, r.Answers[1].Tries, r.Answers[2].Tries})
	for i, a := range r.Answers {
		require.GreaterOrEqual(t, a.After, time.Duration(i)*step)
	}
	require.GreaterOrEqual(t, r.Percentile(100), r.Percentile(50))
}

func TestFalseAnswersBreakTheirInvariants(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lie  func(*fakeServer)
		want []string
	}{
		"oversold":             {func(f *fakeServer) { f.held["c"] = []rush.Order{order("3")} }, []string{"I1", "I3", "I4"}},
		"two orders of a user": {func(f *fakeServer) { f.held["a"] = append(f.held["a"], order("2")); delete(f.held, "b") }, []string{"I2", "I4"}},
		"a unit vanished":      {func(f *fakeServer) { delete(f.held, "b") }, []string{"I3", "I4"}},
		"a unit was kept back": {func(f *fakeServer) { f.stock = 1; delete(f.held, "b") }, []string{"I4", "I5"}},
		"one id twice":         {func(f *fakeServer) { f.held["b"] = []rush.Order{order("1")} }, []string{"I4", "I6"}},
		"cancelled silently":   {func(f *fakeServer) { f.held["a"][0].Status = "cancelled" }, []string{"I3", "I4"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := honest()
			tc.lie(f)
			_, broken := f.run(t)
			require.Equal(t, tc.want, broken)
		})
	}
}

// The order of a is committed at the third poll. The first order of b is lost and the second could not be stored, so b
// orders again. The order of c fails because the sale is sold out. Failed and queued orders hold no unit.
func TestQueuedOrdersArePolled(t *testing.T) {
	t.Parallel()
	f := honest()
	f.held["b"] = append(f.held["b"], rush.Order{ID: "9", VoucherID: "7", Status: "failed"})
	f.held["c"] = []rush.Order{{ID: "3", VoucherID: "7", Status: "failed"}, {ID: "4", VoucherID: "7", Status: rush.Queued}}
	queued := map[string][]string{"a": {"1"}, "b": {"8", "9", "2"}, "c": {"3"}}
	f.place = func(token string, try int) (int, any) {
		return http.StatusAccepted, map[string]string{"id": queued[token][try-1], "status": rush.Queued}
	}
	polls := map[string]int{}
	f.watch = func(id string) (int, any) {
		polls[id]++
		switch {
		case id == "1" && polls[id] < 3:
			return http.StatusOK, rush.Order{ID: id, VoucherID: "7", Status: rush.Queued}
		case id == "8":
			return problem(http.StatusNotFound, "not_found")
		case id == "9":
			return http.StatusOK, rush.Order{ID: id, VoucherID: "7", Status: "failed", Reason: "internal"}
		case id == "3":
			return http.StatusOK, rush.Order{ID: id, VoucherID: "7", Status: "failed", Reason: "sold_out"}
		}
		return http.StatusOK, order(id)
	}
	r, broken := f.run(t)
	require.Empty(t, broken)
	require.Equal(t, 3, polls["1"])
	require.Equal(t, map[string]int{rush.Queued: 5, "ok": 2, "lost": 2, "sold_out": 1}, r.Codes)
}

func TestNewClientRejectsInvalidAddress(t *testing.T) {
	for _, base := range []string{"", "localhost:8080", "ftp://x", "http://"} {
		_, err := rush.NewClient(base, 1)
		require.Error(t, err, base)
	}
}

func TestProxyErrorIsAProblem(t *testing.T) {
	t.Parallel()
	var userAgent string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		userAgent = r.UserAgent()
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html>"))
	}))
	defer srv.Close()
	client := env.Must(rush.NewClient(srv.URL, 1))(t)
	defer client.Close()
	client.UserAgent = "seckill/1.2.3"
	_, err := client.Place(t.Context(), "t", "1", "", "")
	var p *rush.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, "http_502", p.Code)
	require.EqualError(t, p, "502 http_502: Bad Gateway")
	require.EqualError(t, &rush.Problem{Status: 404, Code: "not_found", Detail: "not found"}, "404 not_found: not found")
	require.Equal(t, 3*time.Second, p.RetryAfter)
	require.Equal(t, "seckill/1.2.3", userAgent)
}

// recorder returns a Tracer and the function that returns its ended spans in their order.
func recorder(t *testing.T) (*tracing.Tracer, func() tracetest.SpanStubs) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	return &tracing.Tracer{Tracer: provider.Tracer("test")}, spans.GetSpans
}

// parent returns the traceparent of a sampled request, whose trace id and span id consist of the digit.
func parent(digit string) string {
	return "00-" + strings.Repeat(digit, 32) + "-" + strings.Repeat(digit, 16) + "-01"
}

type placer func(orders []domain.NewOrder) []domain.Placed

func (p placer) PlaceOrders(_ context.Context, orders []domain.NewOrder) []domain.Placed {
	return p(orders)
}

// Each sampled purchase of a batch has the wait and the work of the batch in its own trace. Other purchases have none. The work
// of a batch that could not reach the database has the status of an error.
func TestBatchIsInEachTrace(t *testing.T) {
	tracer, spans := recorder(t)
	since := time.Now().Add(-time.Second)
	orders := tracer.Orders(placer(func([]domain.NewOrder) []domain.Placed {
		return slices.Repeat([]domain.Placed{{Err: domain.ErrUnavailable}}, 5)
	}))
	orders.PlaceOrders(t.Context(), []domain.NewOrder{
		{}, {Trace: &domain.Trace{Parent: parent("1"), Since: since}}, {}, {Trace: &domain.Trace{Parent: parent("2"), Since: since}},
		{Trace: &domain.Trace{Parent: "invalid"}},
	})
	times := map[string][2]time.Time{}
	for _, s := range spans() {
		if s.Parent.IsValid() { // that of the invalid parent is a trace of its own
			id := s.SpanContext.TraceID().String()[:1]
			require.Equal(t, strings.Repeat(id, 16), s.Parent.SpanID().String())
			times[id+" "+s.Name] = [2]time.Time{s.StartTime, s.EndTime}
			require.Equal(t, s.Name == "transaction", s.Status.Code == codes.Error)
		}
	}
	work := times["1 transaction"]
	wait := [2]time.Time{since, work[0]}
	require.Equal(t, map[string][2]time.Time{"1 batch wait": wait, "1 transaction": work, "2 batch wait": wait, "2 transaction": work}, times)
}

type segmentedGate struct {
	lane.Gate
	errs []error
}

func (g segmentedGate) Reserve(context.Context, int64, domain.Window, []domain.Admission) []error {
	return g.errs
}

// A segment that cannot be reached fails its own buyers only.
func TestAdmissionFailsInTracesOfItsSegment(t *testing.T) {
	tracer, spans := recorder(t)
	errs := []error{domain.ErrUnavailable, nil, domain.ErrGateLacking, domain.ErrUnavailable}
	as := make([]domain.Admission, len(errs))
	for i := range as {
		as[i].Trace = &domain.Trace{Parent: parent(strconv.Itoa(1 + i))}
	}
	tracer.Gate(segmentedGate{errs: errs}).Reserve(t.Context(), 1, domain.Window{}, as)

	failed := map[string]bool{}
	for _, s := range spans() {
		if s.Name == "admission" {
			failed[s.SpanContext.TraceID().String()[:1]] = s.Status.Code == codes.Error
		}
	}
	require.Equal(t, map[string]bool{"1": true, "2": false, "3": false, "4": true}, failed)
}

type locks struct{ err error }

func (l locks) TryDo(ctx context.Context, _ int64, fn func(context.Context) error) error {
	if l.err != nil {
		return l.err
	}
	return fn(ctx)
}

// The span of a lock ends when the lock is acquired, or refused.
func TestLockSpanEndsWithTheWait(t *testing.T) {
	tracer, spans := recorder(t)
	ctx, request := tracer.Start(t.Context(), "request")
	require.NoError(t, tracer.Locks(locks{}).TryDo(ctx, 1, func(context.Context) error {
		require.Len(t, spans(), 1)
		return nil
	}))
	require.ErrorIs(t, tracer.Locks(locks{domain.ErrOrderInProgress}).TryDo(ctx, 1, nil), domain.ErrOrderInProgress)
	require.Len(t, spans(), 2)
	request.End()
}

type orderLane struct{ purchase domain.Purchase }

func (l *orderLane) Place(_ context.Context, p domain.Purchase) domain.Placed {
	l.purchase = p
	return domain.Placed{}
}

func TestOnlySampledPurchasesCarryATrace(t *testing.T) {
	tracer, _ := recorder(t)
	next := &orderLane{}
	traced := tracer.Lane(next)
	_ = traced.Place(t.Context(), domain.Purchase{})
	require.Nil(t, next.purchase.Trace)
	unsampled := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: [16]byte{1}, SpanID: [8]byte{1}}))
	_ = traced.Place(unsampled, domain.Purchase{})
	require.Nil(t, next.purchase.Trace)
	sampled := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": parent("3")})
	_ = traced.Place(sampled, domain.Purchase{})
	require.Equal(t, parent("3"), next.purchase.Trace.Parent)
}

// Without an endpoint there is no Tracer, and every part of a server stays as it is.
func TestOffByDefault(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "", "OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "none",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(name, value)
			tracer := env.Must(tracing.New(t.Context(), nil))(t)
			require.Nil(t, tracer)
			next, batch, held := &orderLane{}, placer(nil), locks{}
			require.Same(t, next, tracer.Lane(next))
			require.IsType(t, batch, tracer.Orders(batch))
			require.Equal(t, held, tracer.Locks(held))
			require.Nil(t, tracer.Gate(lane.Gate(nil)))
			require.Nil(t, tracer.Requests())
			require.NoError(t, tracer.Close(t.Context()))
		})
	}
}

func TestInvalidSettingsAreRefused(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
		{"OTEL_TRACES_EXPORTER", "zipkin"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"},
		{"OTEL_TRACES_SAMPLER", "sometimes"},
		{"OTEL_TRACES_SAMPLER_ARG", "1%"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
			t.Setenv(c.name, c.value)
			env.Fails(tracing.New(t.Context(), nil))(t, c.name)
		})
	}
}
