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

// readStream returns what is in the stream. An entry that cannot be read has no admissions: it holds nothing.
func (l *load) readStream(ctx context.Context) (waiting, error) {
	queue := waiting{}
	err := l.gate.entries(ctx, l.keys.shard, func(entry redis.XMessage) {
		p, err := l.gate.Parse(l.keys.shard.stream(), entry.ID, entry.Values)
		if err == nil && p.Admissions[0].VoucherID == l.voucherID {
			queue[entry.ID] = p.Admissions
		}
	})
	if err != nil {
		return nil, unavailable(err, "read the queue of voucher %d", l.voucherID)
	}
	return queue, nil
}

// mark takes out of queue what left the stream until this moment.
func (l *load) mark(ctx context.Context, queue waiting) error {
	notes, err := l.gate.run(ctx, loadMarkScript, l.keys.list(), l.token).StringSlice()
	if errors.Is(err, redis.Nil) {
		return errStale
	}
	if err != nil {
		return unavailable(err, "load voucher %d", l.voucherID)
	}
	for _, note := range notes {
		entry, _, _ := strings.Cut(note, " ")
		delete(queue, entry) // other notes are of orders, and no entry is named like one
	}
	return nil
}

// sweep makes the tickets those of the admissions in the stream. It drops those of admissions that are in no entry,
// because somebody cut the stream: nobody else ever would, and they count as backlog. And it puts back those that are
// missing: without them buyers cannot see their orders.
func (l *load) sweep(ctx context.Context, queue waiting) error {
	inStream, ticketed := map[string]bool{}, map[string]bool{}
	for _, as := range queue {
		for _, row := range rowsOf(as) {
			inStream[row] = true
		}
	}
	var stray []any // users and their rows in turn
	err := l.gate.scan(ctx, l.keys.shard.queued(), func(user, rows string) {
		for row := range strings.SplitSeq(rows, rowSeparator) {
			a, err := parseRow(row)
			switch {
			case inStream[row]:
				ticketed[row] = true
			case err == nil && a.VoucherID == l.voucherID:
				stray = append(stray, user, row)
			}
		}
	})
	if err != nil {
		return unavailable(err, "read the tickets of voucher %d", l.voucherID)
	}
	for some := range slices.Chunk(stray, 2*maxRows) {
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
