package admission

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

// streamPage is how many entries are read at once: Redis serves nobody else meanwhile.
const streamPage = 100

// waiting are the admissions of the voucher by their entries.
type waiting map[string][]service.Admission

func (queue waiting) orderIDs() []int64 {
	var ids []int64
	for _, as := range queue {
		for i := range as {
			ids = append(ids, as[i].OrderID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// readStream returns what is in the stream, and the id of the last entry that it saw, if any. An entry that cannot be
// read has no admissions: it holds nothing.
func (l *load) readStream(ctx context.Context) (queue waiting, last string, err error) {
	queue = waiting{}
	last, err = l.readFrom(ctx, queue, "")
	return queue, last, err
}

// readFrom adds to queue the entries of the voucher after the entry last, and returns the last one that it saw.
func (l *load) readFrom(ctx context.Context, queue waiting, last string) (string, error) {
	last, err := l.gate.entries(ctx, l.keys.shard, last, func(entry redis.XMessage) { l.see(queue, entry) })
	if err != nil {
		return "", unavailable(err, "read the queue of voucher %d", l.voucherID)
	}
	return last, nil
}

func (l *load) see(queue waiting, entry redis.XMessage) {
	p, err := l.gate.Parse(l.keys.shard.stream(), entry.ID, entry.Values)
	if err == nil && p.Admissions[0].VoucherID == l.voucherID {
		queue[entry.ID] = p.Admissions
	}
}

// mark adds to queue the entries after last, and takes out what left the stream until this moment. It returns the last
// entry that it saw.
func (l *load) mark(ctx context.Context, queue waiting, last string) (string, error) {
	for {
		reply, err := l.gate.run(ctx, loadMarkScript, l.keys.list(), l.token, after(last), streamPage).Slice()
		switch {
		case errors.Is(err, redis.Nil):
			return "", errStale
		case err != nil:
			return "", unavailable(err, "load voucher %d", l.voucherID)
		case len(reply) == 0: // the stream grew by more than a page
			if last, err = l.readFrom(ctx, queue, last); err != nil {
				return "", err
			}
			continue
		}
		for _, entry := range entriesOf(reply[1]) {
			l.see(queue, entry)
			last = entry.ID
		}
		notes, _ := reply[0].([]any)
		for _, note := range notes {
			text, _ := note.(string)
			if words := strings.Fields(text); len(words) == 3 && words[0] == "out" {
				delete(queue, words[2])
			}
		}
		return last, nil
	}
}

// entriesOf reads entries of a stream as a script returns them: each an id and a list of fields and values in turn.
func entriesOf(reply any) []redis.XMessage {
	found, _ := reply.([]any)
	entries := make([]redis.XMessage, 0, len(found))
	for _, one := range found {
		pair, _ := one.([]any)
		if len(pair) != 2 {
			continue
		}
		id, _ := pair[0].(string)
		fields, _ := pair[1].([]any)
		entry := redis.XMessage{ID: id, Values: make(map[string]any, len(fields)/2)}
		for i := 0; i+1 < len(fields); i += 2 {
			if name, ok := fields[i].(string); ok {
				entry.Values[name] = fields[i+1]
			}
		}
		entries = append(entries, entry)
	}
	return entries
}

// sweep makes the tickets those of the admissions in the stream. It drops those of admissions that are in no entry,
// because somebody cut the stream: nothing else would, and they count as backlog. And it puts back those that are
// missing: without them buyers cannot see their orders. last is the last entry that is in queue, or was.
func (l *load) sweep(ctx context.Context, queue waiting, last string) error {
	inStream, ticketed := map[string]bool{}, map[string]bool{}
	for _, as := range queue {
		for _, row := range rowsOf(as) {
			inStream[row] = true
		}
	}
	type ticket struct{ user, row string }
	var stray []ticket
	err := l.gate.scan(ctx, l.keys.shard.queued(), func(user, rows string) {
		for row := range strings.SplitSeq(rows, rowSeparator) {
			a, err := parseRow(row)
			switch {
			case inStream[row]:
				ticketed[row] = true
			case err == nil && a.VoucherID == l.voucherID:
				stray = append(stray, ticket{user, row})
			}
		}
	})
	if err != nil {
		return unavailable(err, "read the tickets of voucher %d", l.voucherID)
	}
	if len(stray) > 0 { // or of admissions that came after the mark; their entries were there before these tickets
		later := waiting{}
		if _, err := l.readFrom(ctx, later, last); err != nil {
			return err
		}
		for _, as := range later {
			for _, row := range rowsOf(as) {
				inStream[row] = true
			}
		}
	}
	var drop []any // users and their rows in turn
	for _, t := range stray {
		if !inStream[t.row] {
			drop = append(drop, t.user, t.row)
		}
	}
	for some := range slices.Chunk(drop, 2*maxRows) {
		if err := l.ask(ctx, loadSweepScript, some); err != nil {
			return err
		}
	}
	return l.restore(ctx, queue, ticketed)
}

// restore puts back the tickets that are missing.
func (l *load) restore(ctx context.Context, queue waiting, ticketed map[string]bool) error {
	var missing []any // entries, users and rows in turn
	for entry, as := range queue {
		for i, row := range rowsOf(as) {
			if !ticketed[row] {
				missing = append(missing, entry, as[i].UserID, row)
			}
		}
	}
	for some := range slices.Chunk(missing, 3*maxRows) {
		if err := l.ask(ctx, loadRestoreScript, some); err != nil {
			return err
		}
	}
	return nil
}

// ask runs a script that changes tickets while the load is this loader's.
func (l *load) ask(ctx context.Context, s *redis.Script, args []any) error {
	done, err := l.gate.run(ctx, s, l.keys.list(), append([]any{l.token}, args...)...).Bool()
	if err != nil {
		return unavailable(err, "change tickets of voucher %d", l.voucherID)
	}
	if !done {
		return errStale
	}
	return nil
}
