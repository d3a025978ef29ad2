package admission

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"seckill/internal/domain"
)

const (
	// loadPage is the number of users that one command writes, and loadWriters the number of concurrent writers. Redis
	// serves other clients between the pages.
	loadPage    = 1000
	loadWriters = 4
	// loadNotes is the most notes that one call of the finish applies.
	loadNotes = 500
)

// table is the segment that a load builds.
type table struct {
	stock  int64
	queued int64
	sum    int64
	held   int64
	users  int64
	// holders are sorted by user and order id: ids grow with time, so a user's newest order comes last.
	holders []domain.Holder
}

// newTable computes a segment from its stream and its part of the database. It takes over state.Holders. Two admissions have
// one id if Redis lost its id counters; the first in the stream counts, as for the reconciler.
func newTable(queue queuedEntries, state domain.GateState) *table {
	t := &table{stock: state.Stock, holders: state.Holders}
	known := make(map[int64]bool, len(state.Settled))
	for _, id := range state.Settled {
		known[id] = true
	}

	for _, entry := range slices.SortedFunc(maps.Keys(queue), compareEntries) {
		as := queue[entry]
		t.queued += int64(len(as))

		for i := range as {
			if a := &as[i]; !known[a.OrderID] {
				known[a.OrderID] = true
				t.holders = append(t.holders, domain.Holder{OrderID: a.OrderID, UserID: a.UserID})
				t.stock--
			}
		}
	}

	slices.SortFunc(t.holders, func(a, b domain.Holder) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.OrderID, b.OrderID))
	})

	t.held = int64(len(t.holders))
	for i := range t.holders {
		t.sum += t.holders[i].OrderID % domain.LevelDigits
		if i == 0 || t.holders[i].UserID != t.holders[i-1].UserID {
			t.users++
		}
	}

	return t
}

// pages yields the fields of the table, loadPage users at a time: alternating users and lists of order ids.
func (t *table) pages(yield func([]any) bool) {
	page := make([]any, 0, 2*loadPage)
	for rest := t.holders; len(rest) > 0; {
		user := rest[0].UserID
		n := 1
		for n < len(rest) && rest[n].UserID == user {
			n++
		}

		page = append(page, user, joinIDs(rest[:n]))
		rest = rest[n:]
		if len(page) == cap(page) || len(rest) == 0 {
			if !yield(page) {
				return
			}
			page = make([]any, 0, 2*loadPage)
		}
	}
}

func joinIDs(hs []domain.Holder) string {
	text := strconv.AppendInt(make([]byte, 0, 20), hs[0].OrderID, 10)
	for _, h := range hs[1:] {
		text = strconv.AppendInt(append(text, ','), h.OrderID, 10)
	}
	return string(text)
}

func (l *segmentLoad) write(ctx context.Context, t *table) error {
	key := l.keys.table(l.token)
	writers, ctx := errgroup.WithContext(ctx)
	writers.SetLimit(loadWriters)

	for page := range t.pages {
		if ctx.Err() != nil {
			break
		}

		writers.Go(func() error {
			_, err := l.gate.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.HSet(ctx, key, page...)
				p.PExpire(ctx, key, tableTTL)
				return nil
			})
			return err
		})
	}

	if err := writers.Wait(); err != nil {
		return unavailable(err, "write the buyers of voucher %d", l.voucherID)
	}

	return nil
}

// finish puts the table in place. It calls the script repeatedly if there are many notes to apply. An empty generation
// keeps that of the gate.
func (l *segmentLoad) finish(ctx context.Context, t *table, generation string) error {
	for {
		more, err := l.gate.run(ctx, loadFinishScript, l.keys.list(l.keys.table(l.token), l.keys.loans),
			l.token, loadNotes, t.users, t.stock, t.held, t.queued, t.sum, l.epoch, generation, l.history).Int64Slice()

		switch {
		case errors.Is(err, redis.Nil):
			return errStale
		case err != nil:
			return unavailable(err, "load voucher %d", l.voucherID)
		case len(more) == 0:
			return nil
		}

		t.users = more[0]
		t.stock += more[1]
		t.held += more[2]
		t.queued += more[3]
		t.sum += more[4]
	}
}
