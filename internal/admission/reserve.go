package admission

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

//go:embed reserve.lua
var reserveSource string

var reserveScript = script(reserveSource)

// refusals are the answers of the script that are words.
var refusals = map[string]error{
	"ok":          nil,
	"not_started": service.ErrSaleNotStarted,
	"ended":       service.ErrSaleEnded,
	"sold_out":    service.ErrSoldOut,
	"overloaded":  service.ErrOverloaded,
	"mismatch":    service.ErrIdempotencyMismatch,
}

// Reserve decides for buyers of one voucher, as if they had come one after the other: results[i] is nil if as[i] was
// admitted, or service.ErrSoldOut, *service.DuplicateOrderError (with the newest order that the user holds),
// *service.RepeatedError, ErrIdempotencyMismatch,
// ErrSaleNotStarted, ErrSaleEnded, ErrOverloaded (the backlog is full). The voucher of the admissions is voucherID,
// their limit at least 1, and they have no place yet.
//
// An order id that its user holds already is admitted again, and nothing changes; so a call may be repeated, and
// Reserve repeats it by itself while ctx allows if a reply got lost. More than 500 buyers are several scripts.
//
// With an error there are no results: service.ErrGateCold (Load, and ask again with the same order ids) or
// service.ErrUnavailable.
func (g *Gate) Reserve(
	ctx context.Context, voucherID int64, w service.Window, as []service.Admission,
) ([]error, error) {
	results := make([]error, len(as))
	rest := results
	for buyers := range slices.Chunk(as, maxRows) {
		refused, err := g.reserve(ctx, reserveKeys(voucherID, buyers), g.reserveArgs(w, buyers))
		if errors.Is(err, redis.Nil) {
			return nil, service.ErrGateCold
		}
		if err == nil {
			err = readRefused(refused, rest)
		}
		if err != nil {
			return nil, unavailable(err, "reserve units of voucher %d", voucherID)
		}
		g.desk.remember(voucherID, holdersOf(buyers, rest)...)
		rest = rest[len(buyers):]
	}
	return results, nil
}

// holdersOf returns the admissions that were not refused.
func holdersOf(as []service.Admission, refused []error) []service.Holder {
	hs := make([]service.Holder, 0, len(as))
	for i := range as {
		if refused[i] == nil {
			hs = append(hs, service.Holder{OrderID: as[i].OrderID, UserID: as[i].UserID})
		}
	}
	return hs
}

func reserveKeys(voucherID int64, buyers []service.Admission) []string {
	k := keysOf(voucherID)
	keys := k.list()
	for i := range buyers {
		if a := &buyers[i]; a.Key != nil {
			keys = append(keys, k.shard.requestKey(a.UserID, a.Key))
		}
	}
	return keys
}

// reserveArgs passes numbers by reference: of so many, each would be an allocation.
func (g *Gate) reserveArgs(w service.Window, buyers []service.Admission) []any {
	rows := rowsOf(buyers)
	args := make([]any, 0, 3+4*len(buyers))
	args = append(args, w.Begin.UnixMilli(), w.End.UnixMilli(), g.cfg.MaxBacklog)
	for i := range buyers {
		a := &buyers[i]
		args = append(args, &a.OrderID, &a.UserID, &a.Limit, &rows[i])
	}
	return args
}

// readRefused puts the answers of the script, a number and a text in turn, where they belong.
func readRefused(refused []any, results []error) error {
	for i := 0; i+1 < len(refused); i += 2 {
		number, _ := refused[i].(int64)
		answer, ok := refused[i+1].(string)
		if !ok || number < 1 || number > int64(len(results)) {
			return fmt.Errorf("reserve.lua answered %v", refused)
		}
		results[number-1] = refusal(answer)
	}
	return nil
}

// reserve runs the script until an answer is heard. Where nothing can have been executed it gives up at once: there
// is nothing to find out, and whoever waits should hear soon that Redis is down.
func (g *Gate) reserve(ctx context.Context, keys []string, args []any) ([]any, error) {
	lost := false // an earlier try may have been executed
	for {
		answers, err := g.run(ctx, reserveScript, keys, args...).Slice()
		if err == nil || answered(err) || !lost && notSent(err) {
			return answers, err
		}
		lost = true
		if wait(ctx, 10*time.Millisecond+rand.N(40*time.Millisecond)) != nil {
			return nil, err
		}
	}
}

// answered says whether err is what Redis replied.
func answered(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// notSent says whether err proves that the server did not get the command.
func notSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed)
}

// refusal reads one answer of the script.
func refusal(answer string) error {
	if err, ok := refusals[answer]; ok {
		return err
	}
	if order, same := strings.CutPrefix(answer, "same "); same {
		id, err := strconv.ParseInt(order, 10, 64)
		if err != nil {
			return err
		}
		return &service.RepeatedError{OrderID: id}
	}
	return duplicate(answer)
}

// duplicate makes the error of a user who holds order, as a script wrote it.
func duplicate(order string) error {
	id, err := strconv.ParseInt(order, 10, 64)
	if err != nil {
		return err
	}
	return &service.DuplicateOrderError{OrderID: id}
}

// wait sleeps for d, or less if ctx ends, and then says why.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
