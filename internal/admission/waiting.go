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
	queue, stream := waiting{}, l.keys.shard.stream()
	for start := "-"; ; {
		page, err := l.gate.cfg.Redis.XRangeN(ctx, stream, start, "+", streamPage).Result()
		if err != nil {
			return nil, unavailable(err, "read the queue of voucher %d", l.voucherID)
		}
		for _, entry := range page {
			p, err := l.gate.Parse(stream, entry.ID, entry.Values)
			if err == nil && p.Admissions[0].VoucherID == l.voucherID {
				queue[entry.ID] = p.Admissions
			}
		}
		if len(page) < streamPage {
			return queue, nil
		}
		start = "(" + page[len(page)-1].ID
	}
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

// sweep drops the tickets of admissions that are in no entry, because somebody cut the stream: nobody else ever would,
// and they count as backlog.
func (l *load) sweep(ctx context.Context, queue waiting) error {
	inStream := map[string]bool{}
	for _, as := range queue {
		for _, row := range rowsOf(as) {
			inStream[row] = true
		}
	}
	for cursor := uint64(0); ; {
		page, next, err := l.gate.cfg.Redis.HScan(ctx, l.keys.shard.queued(), cursor, "", scanCount).Result()
		if err != nil {
			return unavailable(err, "read the tickets of voucher %d", l.voucherID)
		}
		if err := l.dropTickets(ctx, l.stray(page, inStream)); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// stray finds the rows of the voucher that are not in the stream, in a page of users and their rows in turn. It
// returns them in the same form.
func (l *load) stray(page []string, inStream map[string]bool) []any {
	var stray []any
	for i := 0; i+1 < len(page); i += 2 {
		for row := range strings.SplitSeq(page[i+1], rowSeparator) {
			a, err := parseRow(row)
			if err == nil && a.VoucherID == l.voucherID && !inStream[row] {
				stray = append(stray, page[i], row)
			}
		}
	}
	return stray
}

func (l *load) dropTickets(ctx context.Context, stray []any) error {
	if len(stray) == 0 {
		return nil
	}
	dropped, err := l.gate.run(ctx, loadSweepScript, l.keys.list(), append([]any{l.token}, stray...)...).Bool()
	if err != nil {
		return unavailable(err, "drop tickets of voucher %d", l.voucherID)
	}
	if !dropped {
		return errStale
	}
	return nil
}
