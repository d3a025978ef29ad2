package admission

import (
	"cmp"
	"context"
	_ "embed" // the script
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

//go:embed replay.lua
var replaySource string

var replayScript = script(replaySource)

// maxLetters bounds one page of dead letters.
const maxLetters = 500

// DeadLetter is an admission that was given up, or an entry that could not be read.
type DeadLetter struct {
	ID        string             // "<shard>-<ms>-<seq>"
	Admission *service.Admission // nil if the entry cannot be read; such a letter cannot be replayed
	Fields    map[string]string  // of the admission; else of the entry, as they were
	Entry     string             // which it was in the stream
	Reason    string
	Tries     int64
	BuriedAt  time.Time
}

// letterID is where a dead letter is: a shard, and the id in its stream.
type letterID struct {
	shard   shard
	ms, seq uint64
}

func (id letterID) entry() string { return fmt.Sprintf("%d-%d", id.ms, id.seq) }

func (id letterID) String() string { return fmt.Sprintf("%d-%s", id.shard, id.entry()) }

// compare orders letters by time, over all shards.
func (id letterID) compare(other letterID) int {
	return cmp.Or(cmp.Compare(id.ms, other.ms), cmp.Compare(id.seq, other.seq), cmp.Compare(id.shard, other.shard))
}

// parseLetterID reads what String writes. What it cannot have written names no letter.
func parseLetterID(text string) (letterID, error) {
	parts := strings.Split(text, "-")
	if len(parts) != 3 {
		return letterID{}, service.ErrNotFound
	}
	s, err := strconv.ParseUint(parts[0], 10, 8)
	ms, errMs := strconv.ParseUint(parts[1], 10, 64)
	seq, errSeq := strconv.ParseUint(parts[2], 10, 64)
	if err != nil || errMs != nil || errSeq != nil || s >= shards {
		return letterID{}, service.ErrNotFound
	}
	return letterID{shard: shard(s), ms: ms, seq: seq}, nil
}

// DeadLetters shows at most limit (1 to 500) letters of all shards, the newest first; before is empty, or the id of
// the last letter of the page before. Errors: service.ErrNotFound (before is no id), ErrUnavailable.
func (g *Gate) DeadLetters(ctx context.Context, before string, limit int) ([]DeadLetter, error) {
	limit = min(max(limit, 1), maxLetters)
	var end *letterID
	if before != "" {
		id, err := parseLetterID(before)
		if err != nil {
			return nil, err
		}
		end = &id
	}
	cmds := make([]*redis.XMessageSliceCmd, shards)
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for s := range shards {
			cmds[s] = p.XRevRangeN(ctx, shard(s).dead(), upTo(end, shard(s)), "-", int64(limit))
		}
		return nil
	})
	if err != nil {
		return nil, unavailable(err, "read the dead letters")
	}
	return newest(cmds, limit)
}

// DeadLetter shows one letter. Errors: service.ErrNotFound, ErrUnavailable.
func (g *Gate) DeadLetter(ctx context.Context, id string) (DeadLetter, error) {
	at, err := parseLetterID(id)
	if err != nil {
		return DeadLetter{}, err
	}
	found, err := g.cfg.Redis.XRangeN(ctx, at.shard.dead(), at.entry(), at.entry(), 1).Result()
	if err != nil {
		return DeadLetter{}, unavailable(err, "read dead letter %s", id)
	}
	if len(found) == 0 {
		return DeadLetter{}, service.ErrNotFound
	}
	return letter(at, found[0]), nil
}

// upTo is where the letters of a shard that come after end begin, in the order from the newest to the oldest.
func upTo(end *letterID, s shard) string {
	switch {
	case end == nil:
		return "+"
	case s < end.shard:
		return end.entry() // of the same moment, and behind it
	default:
		return "(" + end.entry()
	}
}

// newest merges the shards' letters.
func newest(cmds []*redis.XMessageSliceCmd, limit int) ([]DeadLetter, error) {
	type found struct {
		id      letterID
		message redis.XMessage
	}
	var all []found
	for s, cmd := range cmds {
		for _, m := range cmd.Val() {
			id, err := parseLetterID(fmt.Sprintf("%d-%s", s, m.ID))
			if err != nil {
				return nil, fmt.Errorf("admission: dead letter %s: %w", m.ID, err)
			}
			all = append(all, found{id, m})
		}
	}
	slices.SortFunc(all, func(a, b found) int { return b.id.compare(a.id) })
	letters := make([]DeadLetter, 0, min(len(all), limit))
	for _, f := range all[:min(len(all), limit)] {
		letters = append(letters, letter(f.id, f.message))
	}
	return letters, nil
}

// letter reads a dead letter. It never fails: what is buried is there to be looked at.
func letter(id letterID, m redis.XMessage) DeadLetter {
	values := texts(m.Values)
	d := DeadLetter{
		ID: id.String(), Entry: values["dead_entry"], Reason: values["dead_reason"],
		BuriedAt: time.UnixMilli(int64(id.ms)).UTC(), //nolint:gosec // a time
	}
	d.Tries, _ = strconv.ParseInt(values["dead_tries"], 10, 64)
	if a, err := parseRow(values["row"]); err == nil {
		d.Admission, d.Fields = &a, named(&a)
		return d
	}
	for _, ours := range []string{"dead_entry", "dead_reason", "dead_tries"} {
		delete(values, ours)
	}
	d.Fields = values
	return d
}

// texts is the client's map as what it is.
func texts(values map[string]any) map[string]string {
	m := make(map[string]string, len(values))
	for name, v := range values {
		m[name], _ = v.(string)
	}
	return m
}

// named is a row as an operator wants to see it.
func named(a *service.Admission) map[string]string {
	m := map[string]string{}
	for name, n := range map[string]int64{
		"order": a.OrderID, "user": a.UserID, "voucher": a.VoucherID, "limit": int64(a.Limit), "amount": a.Amount,
		"at": a.At.UnixMilli(),
	} {
		m[name] = strconv.FormatInt(n, 10)
	}
	return m
}

// Replay sends a dead letter back into the queue: its unit and its buyer are reserved again, under the same order id.
// The window of the sale does not count, for the buyer came in time; limit and stock do.
//
// Errors: service.ErrNotFound, ErrInvalidState (the letter cannot be read), ErrGateCold (the admission returned with it
// says which voucher to Load), ErrSoldOut, *DuplicateOrderError: then the letter stays. After ErrUnavailable,
// ErrNotFound means that it was replayed.
func (g *Gate) Replay(ctx context.Context, id string) (service.Admission, error) {
	at, err := parseLetterID(id)
	if err != nil {
		return service.Admission{}, err
	}
	found, err := g.cfg.Redis.XRangeN(ctx, at.shard.dead(), at.entry(), at.entry(), 1).Result()
	if err != nil {
		return service.Admission{}, unavailable(err, "read dead letter %s", id)
	}
	if len(found) == 0 {
		return service.Admission{}, service.ErrNotFound
	}
	row, _ := found[0].Values["row"].(string)
	a, err := parseRow(row)
	if err != nil || shardOf(a.VoucherID) != at.shard {
		return service.Admission{}, fmt.Errorf("%w: the dead letter cannot be read", service.ErrInvalidState)
	}
	a.ReplyTo = "" // whoever waited has gone
	a.Place = 0    // it goes to the end of the line
	return a, g.replay(ctx, at, a)
}

func (g *Gate) replay(ctx context.Context, id letterID, a service.Admission) error {
	answer, err := g.run(ctx, replayScript, keysOf(a.VoucherID).list(id.shard.failed(a.UserID)), id.entry(),
		a.OrderID, a.UserID, a.Limit, rowOf(&a)).Text()
	if err != nil {
		return unavailable(err, "replay dead letter %s", id)
	}
	switch answer {
	case "gone":
		return service.ErrNotFound
	case "cold":
		return service.ErrGateCold
	default:
		return refusal(answer)
	}
}

// Discard deletes a dead letter. Errors: service.ErrNotFound, ErrUnavailable.
func (g *Gate) Discard(ctx context.Context, id string) error {
	at, err := parseLetterID(id)
	if err != nil {
		return err
	}
	n, err := g.cfg.Redis.XDel(ctx, at.shard.dead(), at.entry()).Result()
	if err != nil {
		return unavailable(err, "discard dead letter %s", id)
	}
	if n == 0 {
		return service.ErrNotFound
	}
	return nil
}
