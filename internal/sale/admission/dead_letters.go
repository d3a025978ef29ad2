package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

var replayScript = script("replay")

// maxDeadLetters bounds one page of dead letters.
const maxDeadLetters = 500

// deadLetterID locates a dead letter: its shard, and its id in the shard's stream of dead letters.
type deadLetterID struct {
	shard Shard
	entry string
}

func (id deadLetterID) String() string { return fmt.Sprintf("%d-%s", id.shard, id.entry) }

func (id deadLetterID) compare(other deadLetterID) int {
	return cmp.Or(compareEntries(id.entry, other.entry), cmp.Compare(id.shard, other.shard))
}

// parseDeadLetterID parses the output of String. It returns domain.ErrNotFound for any other text.
func parseDeadLetterID(text string) (deadLetterID, error) {
	shard, entry, _ := strings.Cut(text, "-")
	ms, seq, _ := strings.Cut(entry, "-")
	s, err := strconv.ParseUint(shard, 10, 8)
	_, errMs := strconv.ParseUint(ms, 10, 64)
	_, errSeq := strconv.ParseUint(seq, 10, 64)
	if err != nil || errMs != nil || errSeq != nil || s >= uint64(Shards) {
		return deadLetterID{}, domain.ErrNotFound
	}

	return deadLetterID{Shard(s), entry}, nil
}

// DeadLetters returns a page of at most limit (1 to 500) dead letters of all shards, newest first. before is empty for
// the first page, and the id of the previous page's last dead letter for any other.
// Errors: domain.ErrNotFound (before is not an id), ErrUnavailable.
func (g *Gate) DeadLetters(ctx context.Context, before string, limit int) ([]domain.DeadLetter, error) {
	limit = min(max(limit, 1), maxDeadLetters)
	var end *deadLetterID
	if before != "" {
		id, err := parseDeadLetterID(before)
		if err != nil {
			return nil, err
		}
		end = &id
	}

	cmds := make([]*redis.XMessageSliceCmd, Shards)
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for s := range Shards {
			cmds[s] = p.XRevRangeN(ctx, s.Dead(), pageStart(end, s), "-", int64(limit))
		}
		return nil
	})
	if err != nil {
		return nil, unavailable(err, "read the dead letters")
	}

	return mergeDeadLetters(cmds, limit), nil
}

// DeadLetter returns one dead letter. Errors: domain.ErrNotFound, ErrUnavailable.
func (g *Gate) DeadLetter(ctx context.Context, id string) (domain.DeadLetter, error) {
	at, err := parseDeadLetterID(id)
	if err != nil {
		return domain.DeadLetter{}, err
	}

	found, err := g.cfg.Redis.XRangeN(ctx, at.shard.Dead(), at.entry, at.entry, 1).Result()
	if err != nil {
		return domain.DeadLetter{}, unavailable(err, "read dead letter %s", id)
	}
	if len(found) == 0 {
		return domain.DeadLetter{}, domain.ErrNotFound
	}

	return newDeadLetter(at, found[0]), nil
}

// pageStart returns the upper bound, for XREVRANGE, of the dead letters of a shard that follow end from newest to
// oldest.
func pageStart(end *deadLetterID, s Shard) string {
	switch {
	case end == nil:
		return "+"
	case s < end.shard:
		// The same id in a lower shard comes after end.
		return end.entry
	default:
		return "(" + end.entry
	}
}

func mergeDeadLetters(cmds []*redis.XMessageSliceCmd, limit int) []domain.DeadLetter {
	type found struct {
		id      deadLetterID
		message redis.XMessage
	}

	var all []found
	for s, cmd := range cmds {
		for _, m := range cmd.Val() {
			all = append(all, found{deadLetterID{Shard(s), m.ID}, m})
		}
	}

	slices.SortFunc(all, func(a, b found) int { return b.id.compare(a.id) })
	all = all[:min(len(all), limit)]

	letters := make([]domain.DeadLetter, len(all))
	for i, f := range all {
		letters[i] = newDeadLetter(f.id, f.message)
	}

	return letters
}

// newDeadLetter makes a DeadLetter of its entry. It accepts any content, so that an operator can see every dead letter.
func newDeadLetter(id deadLetterID, m redis.XMessage) domain.DeadLetter {
	// The values of an entry are strings.
	fields := make(map[string]string, len(m.Values))
	for name, v := range m.Values {
		fields[name], _ = v.(string)
	}

	d := domain.DeadLetter{
		ID:       id.String(),
		Entry:    fields["dead_entry"],
		Reason:   fields["dead_reason"],
		BuriedAt: entryTime(id.entry),
	}
	d.Tries, _ = strconv.ParseInt(fields["dead_tries"], 10, 64)

	if a, err := parseRow(fields["row"]); err == nil {
		d.Admission = &a
		d.Fields = map[string]string{
			"order":   strconv.FormatInt(a.OrderID, 10),
			"user":    strconv.FormatInt(a.UserID, 10),
			"voucher": strconv.FormatInt(a.VoucherID, 10),
			"limit":   strconv.Itoa(a.Limit),
			"amount":  strconv.FormatInt(a.Amount, 10),
			"at":      strconv.FormatInt(a.At.UnixMilli(), 10),
		}
		return d
	}

	for _, added := range []string{"dead_entry", "dead_reason", "dead_tries"} {
		delete(fields, added)
	}
	d.Fields = fields
	return d
}

// Replay admits a dead letter again, under the same order id, and queues it. It checks the limit and the stock, but not
// the sale window, in which the purchase was made.
//
// Errors: domain.ErrNotFound, ErrInvalidState (it cannot be parsed), ErrGateCold (the returned admission has the
// voucher to Load), ErrSoldOut, *DuplicateOrderError, ErrUnavailable. After ErrUnavailable the dead letter may or may
// not have been replayed; ErrNotFound from a repeated call means that it was. After any other error it is unchanged.
func (g *Gate) Replay(ctx context.Context, id string) (domain.Admission, error) {
	d, err := g.DeadLetter(ctx, id)
	if err != nil {
		return domain.Admission{}, err
	}
	if d.Admission == nil {
		return domain.Admission{}, fmt.Errorf("%w: the dead letter cannot be parsed", domain.ErrInvalidState)
	}

	a := *d.Admission
	segments, err := g.segments(ctx, a.VoucherID)
	if err != nil {
		return domain.Admission{}, err
	}

	// It was found.
	at, _ := parseDeadLetterID(id)
	if segments[home(a.UserID, len(segments))].shard != at.shard {
		return domain.Admission{}, fmt.Errorf("%w: the dead letter is of a sale with another number of segments", domain.ErrInvalidState)
	}

	// The trace of the purchase ended with the dead letter, and the admission is queued last.
	a.Trace = nil
	a.Place = 0
	return a, g.replay(ctx, at, segments, a)
}

func (g *Gate) replay(ctx context.Context, id deadLetterID, segments []gateKeys, a domain.Admission) error {
	k := keysIn(id.shard, a.VoucherID)
	for {
		answer, err := g.run(ctx, replayScript, k.list(id.shard.Failed(a.UserID)), id.entry,
			a.OrderID, a.UserID, a.Limit, formatRow(&a)).Text()
		if err != nil {
			return unavailable(err, "replay dead letter %s", id)
		}

		switch answer {
		case "gone":
			return domain.ErrNotFound
		case "cold":
			return domain.ErrGateCold
		}

		if err = refusal(answer); !errors.Is(err, domain.ErrSoldOut) {
			return err
		}

		again, lendErr := g.lend(ctx, a.VoucherID, segments, map[Shard]int64{id.shard: 1})
		if lendErr != nil {
			return lendErr
		}
		if !again {
			return err
		}
	}
}

// Discard deletes a dead letter. Errors: domain.ErrNotFound, ErrUnavailable.
func (g *Gate) Discard(ctx context.Context, id string) error {
	at, err := parseDeadLetterID(id)
	if err != nil {
		return err
	}

	n, err := g.cfg.Redis.XDel(ctx, at.shard.Dead(), at.entry).Result()
	if err != nil {
		return unavailable(err, "discard dead letter %s", id)
	}
	if n == 0 {
		return domain.ErrNotFound
	}

	return nil
}
