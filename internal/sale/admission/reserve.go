package admission

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

var reserveScript = script("reserve")

// refusals maps the fixed answers of reserve.lua and replay.lua to errors.
var refusals = map[string]error{
	"ok":          nil,
	"not_started": domain.ErrSaleNotStarted,
	"ended":       domain.ErrSaleEnded,
	"sold_out":    domain.ErrSoldOut,
	"overloaded":  domain.ErrOverloaded,
	"mismatch":    domain.ErrIdempotencyMismatch,
	"unsure":      domain.ErrGateLacking,
}

// Reserve decides about purchases of one voucher in their order. results[i] is nil if as[i] was admitted. Otherwise it
// is domain.ErrSoldOut, *domain.DuplicateOrderError (with the newest order that the user holds),
// *domain.RepeatedError, ErrIdempotencyMismatch, ErrSaleNotStarted, ErrSaleEnded, ErrOverloaded (the backlog is full) or
// ErrGateLacking (no unit is left; call Load, then Reserve again with the same order ids). All admissions must be of
// voucherID, with a limit of at least 1 and no queue position (Place). One without an order id is not admitted: its
// result is as if no unit were left.
//
// A buyer whose segment could not decide has domain.ErrGateCold (call Load, then Reserve again with the same order ids) or
// domain.ErrUnavailable.
//
// An order id that its user holds already is admitted again without any change, so a call may be repeated. Reserve
// itself repeats it after a lost reply until ctx ends. A call should have a few hundred admissions at most, because a
// script blocks Redis while it runs.
func (g *Gate) Reserve(ctx context.Context, voucherID int64, w domain.Window, as []domain.Admission) []error {
	segments, err := g.segments(ctx, voucherID)
	switch {
	case err != nil:
		return slices.Repeat([]error{err}, len(as))
	case len(segments) == 1:
		return g.reserveSegment(ctx, voucherID, segments[0], w, as)
	}
	return g.reserveSegments(ctx, voucherID, segments, w, as)
}

func (g *Gate) reserveSegment(
	ctx context.Context, voucherID int64, k gateKeys, w domain.Window, as []domain.Admission,
) []error {
	results := make([]error, len(as))
	refused, err := g.reserve(ctx, reserveKeys(k, as), g.reserveArgs(w, as))
	if err == nil {
		err = applyRefusals(refused, results)
	}

	switch {
	case err == nil:
		return results
	case errors.Is(err, redis.Nil):
		err = domain.ErrGateCold
	default:
		err = unavailable(err, "reserve units of voucher %d", voucherID)
	}
	return slices.Repeat([]error{err}, len(as))
}

func reserveKeys(k gateKeys, buyers []domain.Admission) []string {
	keys := k.list()
	for i := range buyers {
		if a := &buyers[i]; a.Key != nil {
			keys = append(keys, k.shard.RequestKey(a.UserID, a.Key))
		}
	}
	return keys
}

// reserveArgs passes numbers by pointer: converting each value to an interface would allocate.
func (g *Gate) reserveArgs(w domain.Window, buyers []domain.Admission) []any {
	rows := formatRows(buyers)
	args := make([]any, 0, 3+4*len(buyers))
	args = append(args, w.Begin.UnixMilli(), w.End.UnixMilli(), g.cfg.MaxBacklog)
	for i := range buyers {
		a := &buyers[i]
		args = append(args, &a.OrderID, &a.UserID, &a.Limit, &rows[i])
	}
	return args
}

// applyRefusals stores the script's answers, alternating numbers (from 1) and texts, in results.
func applyRefusals(refused []any, results []error) error {
	for i := 0; i+1 < len(refused); i += 2 {
		number, _ := refused[i].(int64)
		answer, ok := refused[i+1].(string)
		if !ok || number < 1 || number > int64(len(results)) {
			return fmt.Errorf("reserve.lua returned %v", refused)
		}
		results[number-1] = refusal(answer)
	}
	return nil
}

// reserve runs the script until it gets a reply or ctx ends. It fails at once if the script was certainly never
// executed: then nothing has to be found out, and the caller gets the error early.
func (g *Gate) reserve(ctx context.Context, keys []string, args []any) ([]any, error) {
	// lost means that an earlier attempt may have been executed.
	lost := false
	for {
		answers, err := g.run(ctx, reserveScript, keys, args...).Slice()
		if err == nil || isReply(err) || !lost && notExecuted(err) {
			return answers, err
		}

		lost = true
		if loop.Sleep(ctx, 10*time.Millisecond+rand.N(40*time.Millisecond)) != nil {
			return nil, err
		}
	}
}

func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// notExecuted reports whether err proves that the server did not receive the command.
func notExecuted(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed)
}

func refusal(answer string) error {
	if err, ok := refusals[answer]; ok {
		return err
	}

	order, same := strings.CutPrefix(answer, "same ")
	id, err := strconv.ParseInt(order, 10, 64)
	switch {
	case err != nil:
		return err
	case same:
		return &domain.RepeatedError{OrderID: id}
	}
	return &domain.DuplicateOrderError{OrderID: id}
}
