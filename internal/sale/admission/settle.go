package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

var (
	settleScript     = script("settle")
	confirmScript    = script("confirm")
	deadLetterScript = script("dead_letter")
)

// Confirm returns the generation under which the admissions of an entry may be committed: that of the present gate, which
// has them because the entry is in the stream. An entry in a shard that is no segment of its voucher any more, because
// their number has changed since, is in no gate, and may be committed all the same. Errors: domain.ErrNotFound (it is not
// in the stream: it was settled, or Redis lost it), ErrUnavailable, those of Config.Segments.
func (g *Gate) Confirm(ctx context.Context, p domain.StreamEntry) (int64, error) {
	s, err := shardOfStream(p.Stream)
	if err != nil {
		return 0, err
	}

	a := &p.Admissions[0]
	segments, err := g.segments(ctx, a.VoucherID)
	if err != nil {
		return 0, err
	}

	prefix := fmt.Sprintf("%d %d %d ", a.OrderID, a.UserID, a.VoucherID)
	generation, err := g.run(ctx, confirmScript, keysIn(s, a.VoucherID).list(), p.Entry, prefix).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, domain.ErrNotFound
	}

	if err == nil && !slices.ContainsFunc(segments, func(k gateKeys) bool { return k.shard == s }) {
		generation, err = g.cfg.Redis.HGet(ctx, segments[0].meta, "generation").Int64()
		if errors.Is(err, redis.Nil) {
			return 0, nil
		}
	}

	if err != nil {
		return 0, unavailable(err, "confirm entry %s of voucher %d", p.Entry, a.VoucherID)
	}

	return generation, nil
}

// Outdate makes the next Load of a voucher's gate raise its generation, although the gate may be complete. Error:
// domain.ErrUnavailable.
func (g *Gate) Outdate(ctx context.Context, voucherID int64) error {
	segments, err := g.segments(ctx, voucherID)
	if err != nil {
		return err
	}

	// Without it one segment may lack admissions, so all are loaded.
	if err := g.cfg.Redis.HDel(ctx, segments[0].meta, "generation").Err(); err != nil {
		return unavailable(err, "outdate the gate of voucher %d", voucherID)
	}

	return nil
}

// Settle ends the admissions of stream entries after their transaction. It runs one script per stream and voucher, which
// removes the entries from the stream. What else happens depends on the domain.End of each admission:
//
//	committed (the zero End)  the ticket is deleted
//	rejected (Failed)         the unit is returned; the ticket becomes a failed ticket with the reason
//	dead-lettered (Dead)      as rejected, with the reason "internal"; a dead letter is added
//	retry (Again)             the admission keeps its unit and ticket, and gets a stream entry of its own
//
// Settle is idempotent; call it again after an error (domain.ErrUnavailable). The entries of one voucher should have a
// few hundred admissions at most, because a script blocks Redis while it runs.
func (g *Gate) Settle(ctx context.Context, done []domain.StreamEntry) error {
	type part struct {
		stream    string
		voucherID int64
	}

	parts := make(map[part][]domain.StreamEntry, 1)
	for _, p := range done {
		at := part{p.Stream, p.Admissions[0].VoucherID}
		parts[at] = append(parts[at], p)
	}

	for at, entries := range parts {
		id := at.voucherID
		s, err := shardOfStream(at.stream)
		if err != nil {
			return err
		}

		keys, args := settleArgs(keysIn(s, id), id, entries)
		if err := g.run(ctx, settleScript, keys, args...).Err(); err != nil {
			return unavailable(err, "settle %d entries of voucher %d", len(entries), id)
		}
	}

	return nil
}

// settleArgs passes numbers by pointer: converting each value to an interface would allocate.
func settleArgs(k gateKeys, voucherID int64, entries []domain.StreamEntry) ([]string, []any) {
	rows := 0
	for i := range entries {
		rows += len(entries[i].Admissions)
	}

	keys := k.list()
	args := make([]any, 0, 1+3*(len(entries)+rows))
	args = append(args, voucherID)

	for i := range entries {
		p := &entries[i]
		args = append(args, &p.Entry, &p.Tries, len(p.Admissions))
		for n := range p.Admissions {
			a := &p.Admissions[n]
			end := p.Ends[n]
			args = append(args, &a.OrderID, &a.UserID)
			switch {
			case end.Again:
				args = append(args, "retry", "", formatRow(a))
			case end.Dead != "":
				keys = append(keys, k.shard.Failed(a.UserID))
				args = append(args, "dead", end.Dead, formatRow(a))
			case end.Failed != "":
				keys = append(keys, k.shard.Failed(a.UserID))
				args = append(args, "rejected", end.Failed, formatRow(a))
			default:
				args = append(args, "committed")
			}
		}
	}

	return keys, args
}

// MoveToDeadLetters moves an unparsable entry of one of the Streams to the dead letters, with its fields unchanged. It
// releases no unit, because the entry does not say which one. MoveToDeadLetters is idempotent. Error:
// domain.ErrUnavailable.
func (g *Gate) MoveToDeadLetters(ctx context.Context, stream, entry, reason string) error {
	s, err := shardOfStream(stream)
	if err != nil {
		return err
	}
	if err := g.run(ctx, deadLetterScript, keysIn(s, 0).list(), entry, reason).Err(); err != nil {
		return unavailable(err, "dead-letter entry %s of %s", entry, stream)
	}
	return nil
}
