package tracing

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"seckill/internal/domain"
	"seckill/internal/sale/lane"
	"seckill/internal/service"
)

// Lane returns a lane in which the purchases of sampled requests carry their trace.
func (t *Tracer) Lane(l service.Lane) service.Lane {
	if t == nil {
		return l
	}
	return tracedLane{l}
}

type tracedLane struct{ service.Lane }

// Place implements service.Lane.
func (l tracedLane) Place(ctx context.Context, p domain.Purchase) domain.Placed {
	if trace.SpanContextFromContext(ctx).IsSampled() {
		p.Trace = &domain.Trace{Parent: encode(ctx)}
	}
	return l.Lane.Place(ctx, p)
}

// Locks returns locks with a span of each wait for a lock.
func (t *Tracer) Locks(l lane.UserLocks) lane.UserLocks {
	if t == nil {
		return l
	}
	return tracedLocks{l, t}
}

type tracedLocks struct {
	lane.UserLocks
	tracer *Tracer
}

// TryDo implements lane.UserLocks.
func (l tracedLocks) TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return l.UserLocks.TryDo(ctx, userID, fn)
	}

	_, span := l.tracer.Start(ctx, "user lock", trace.WithSpanKind(trace.SpanKindClient))
	// A second End has no effect.
	defer span.End()

	return l.UserLocks.TryDo(ctx, userID, func(held context.Context) error {
		span.End()
		return fn(held)
	})
}

// Gate returns a gate with a span of each batch of reservations.
func (t *Tracer) Gate(g lane.Gate) lane.Gate {
	if t == nil {
		return g
	}
	return tracedGate{g, t}
}

type tracedGate struct {
	lane.Gate
	tracer *Tracer
}

// Reserve implements lane.Gate.
func (g tracedGate) Reserve(ctx context.Context, voucherID int64, w domain.Window, as []domain.Admission) []error {
	end := g.tracer.begin(ctx, "admission", len(as), func(i int) *domain.Trace { return as[i].Trace })
	errs := g.Gate.Reserve(ctx, voucherID, w, as)
	end(func(i int) bool {
		return errors.Is(errs[i], domain.ErrUnavailable) && !errors.Is(errs[i], domain.ErrGateLacking)
	})
	return errs
}

// Orders returns a store with a span of each batch of orders.
func (t *Tracer) Orders(o lane.OrderPlacer) lane.OrderPlacer {
	if t == nil {
		return o
	}
	return tracedOrders{o, t}
}

type tracedOrders struct {
	lane.OrderPlacer
	tracer *Tracer
}

// PlaceOrders implements lane.OrderPlacer.
func (s tracedOrders) PlaceOrders(ctx context.Context, orders []domain.NewOrder) []domain.Placed {
	end := s.tracer.begin(ctx, "transaction", len(orders), func(i int) *domain.Trace { return orders[i].Trace })
	placed := s.OrderPlacer.PlaceOrders(ctx, orders)
	end(func(i int) bool { return errors.Is(placed[i].Err, domain.ErrUnavailable) })
	return placed
}

// begin ends the waits of the sampled purchases, and begins a span in the trace of each for the work that is done once for all.
// size is the number of all purchases; traceOf returns the trace of one, nil unless it is sampled.
func (t *Tracer) begin(
	ctx context.Context, name string, size int, traceOf func(i int) *domain.Trace,
) (end func(failed func(i int) bool)) {
	begun := trace.WithTimestamp(time.Now())
	spans := map[int]trace.Span{}
	for i := range size {
		of := traceOf(i)
		if of == nil {
			continue
		}

		parent := decode(ctx, of.Parent)
		_, wait := t.Start(parent, "batch wait", trace.WithTimestamp(of.Since))
		wait.End(begun)

		_, span := t.Start(parent, name, begun, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.Int("seckill.batch.size", size)))
		spans[i] = span
	}

	return func(failed func(i int) bool) {
		ended := trace.WithTimestamp(time.Now())
		for i, span := range spans {
			if failed(i) {
				span.SetStatus(codes.Error, "unavailable")
			}
			span.End(ended)
		}
	}
}
