package admission

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

// loadPage is how many users are sent at once.
const loadPage = 1000

// table is what a load builds.
type table struct {
	stock  int64
	queued int
	held   int
	sum    int64
	buyers map[int64][]int64 // user -> orders
}

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
	t.sum += orderID % service.LevelDigits
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
		l.token, t.stock, t.held, t.queued, t.sum, len(t.buyers)).Bool()
	if err != nil {
		return unavailable(err, "load voucher %d", l.voucherID)
	}
	if !done {
		return errStale
	}
	return nil
}
