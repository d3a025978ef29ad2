package admission

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

const (
	// loadPage is how many users are sent at once.
	loadPage = 1000
	// streamPage is how many entries are read at once: Redis serves nobody else meanwhile.
	streamPage = 100
)

// table is what a load builds.
type table struct {
	stock  int64
	queued int
	held   int
	buyers map[int64][]int64 // user -> orders
}

// waiting are the admissions of the voucher by their entries.
type waiting map[string][]service.Admission

// rebuild is the work of a load, step by step as Load tells.
func (l *load) rebuild(ctx context.Context) (*table, error) {
	queue, err := l.readStream(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.mark(ctx, queue); err != nil {
		return nil, err
	}
	if err := l.sweep(ctx, queue); err != nil {
		return nil, err
	}
	state, err := l.read(ctx, l.voucherID, queue.orderIDs())
	if err != nil {
		return nil, err
	}
	t := newTable(queue, state)
	if err := l.write(ctx, t); err != nil {
		return nil, err
	}
	return t, l.finish(ctx, t)
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

func newTable(queue waiting, state service.GateState) *table {
	t := &table{stock: state.Stock, buyers: map[int64][]int64{}}
	known := make(map[int64]bool, len(state.Settled)+len(state.Holders))
	for _, id := range state.Settled {
		known[id] = true
	}
	for _, h := range state.Holders {
		known[h.OrderID] = true
		t.add(h.UserID, h.OrderID)
	}
	for _, as := range queue {
		t.queued += len(as)
		for i := range as {
			if a := &as[i]; !known[a.OrderID] {
				known[a.OrderID] = true
				t.add(a.UserID, a.OrderID)
				t.stock--
			}
		}
	}
	for _, orders := range t.buyers {
		slices.Sort(orders) // ids grow with time: the newest is the last
	}
	return t
}

func (t *table) add(userID, orderID int64) {
	t.buyers[userID] = append(t.buyers[userID], orderID)
	t.held++
}

// write stores the buyers under the load's own name.
func (l *load) write(ctx context.Context, t *table) error {
	key := l.keys.table(l.token)
	for users := range slices.Chunk(slices.Collect(maps.Keys(t.buyers)), loadPage) {
		row := make([]any, 0, 2*len(users))
		for _, user := range users {
			row = append(row, user, joinIDs(t.buyers[user]))
		}
		_, err := l.gate.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, key, row...)
			p.PExpire(ctx, key, tableTTL)
			return nil
		})
		if err != nil {
			return unavailable(err, "write the buyers of voucher %d", l.voucherID)
		}
	}
	return nil
}

func joinIDs(ids []int64) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(words, ",")
}

func (l *load) finish(ctx context.Context, t *table) error {
	done, err := l.gate.run(ctx, loadFinishScript, l.keys.list(l.keys.table(l.token)),
		l.token, t.stock, t.held, t.queued, len(t.buyers)).Bool()
	if err != nil {
		return unavailable(err, "load voucher %d", l.voucherID)
	}
	if !done {
		return errStale
	}
	return nil
}
