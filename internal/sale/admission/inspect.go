package admission

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

// inspectDeadLetters is the number of dead letters of a shard that Inspect reads, newest first.
const inspectDeadLetters = 1000

// Inspect reads all data of a voucher in Redis, page by page while buyers buy: the result is not a snapshot. It reads
// the level, the buyers, the tickets and the stream, in this order. An admission that is in all of them from begin to
// end is found in all of them. If there are more than most buyers, it returns their number only.
//
// Broken keys and a cold gate are reported in the view, and are not errors. Error: domain.ErrUnavailable.
func (g *Gate) Inspect(ctx context.Context, voucherID int64, most int) (domain.GateView, error) {
	segments, err := g.segments(ctx, voucherID)
	if err != nil {
		return domain.GateView{}, err
	}

	i := &inspection{
		gate:      g,
		voucherID: voucherID,
		segments:  segments,
	}
	reads := []func(context.Context) error{i.readLevel}
	for _, read := range []func(context.Context, gateKeys) error{
		func(ctx context.Context, k gateKeys) error { return i.readBuyers(ctx, k, most) }, i.readTickets, i.readStream, i.readDeadLetters,
	} {
		for _, k := range segments {
			reads = append(reads, func(ctx context.Context) error { return read(ctx, k) })
		}
	}

	for _, read := range reads {
		err := read(ctx)
		switch {
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			i.view.Broken = true
		case err != nil:
			return domain.GateView{}, unavailable(err, "inspect voucher %d", voucherID)
		}
	}

	return i.view, nil
}

// inspection is one call of Inspect. Its methods return errors of Redis unwrapped.
type inspection struct {
	gate      *Gate
	voucherID int64
	segments  []gateKeys
	view      domain.GateView
}

func (i *inspection) readLevel(ctx context.Context) error {
	all, err := i.gate.readSegments(ctx, i.voucherID, i.segments)
	switch {
	case errors.Is(err, domain.ErrGateBroken):
		i.view.Broken = true
		return nil
	case err != nil:
		return err
	case isCold(all):
		i.view.Cold = true
		i.view.Loading = slices.ContainsFunc(all, func(s segment) bool { return s.loading })
	default:
		i.view.Level = levelOf(all)
	}

	return nil
}

func (i *inspection) readBuyers(ctx context.Context, k gateKeys, most int) error {
	if i.view.Level.Users > int64(most) {
		i.view.TooMany = true
		return nil
	}

	return i.gate.scan(ctx, k.buyers, func(user, list string) {
		userID, err := strconv.ParseInt(user, 10, 64)
		for order := range strings.SplitSeq(list, ",") {
			orderID, badOrder := strconv.ParseInt(order, 10, 64)
			if err != nil || badOrder != nil {
				i.view.Unreadable++
				continue
			}
			i.view.Buyers = append(i.view.Buyers, domain.Holder{OrderID: orderID, UserID: userID})
		}
	})
}

func (i *inspection) readTickets(ctx context.Context, k gateKeys) error {
	return i.gate.scan(ctx, k.shard.Queued(), func(_, rows string) {
		for row := range strings.SplitSeq(rows, rowSeparator) {
			if a, err := parseRow(row); err == nil && a.VoucherID == i.voucherID {
				i.view.Tickets = append(i.view.Tickets, domain.Holder{OrderID: a.OrderID, UserID: a.UserID})
			}
		}
	})
}

func (i *inspection) readStream(ctx context.Context, k gateKeys) error {
	_, err := i.gate.entries(ctx, k.shard, "", func(entry redis.XMessage) {
		p, err := i.gate.Parse(k.shard.Stream(), entry.ID, entry.Values)
		if err != nil || p.Admissions[0].VoucherID != i.voucherID {
			return
		}

		for _, a := range p.Admissions {
			i.view.Queue = append(i.view.Queue, domain.Queued{
				Holder: domain.Holder{OrderID: a.OrderID, UserID: a.UserID},
				Since:  entryTime(entry.ID),
			})
		}
	})
	return err
}

func (i *inspection) readDeadLetters(ctx context.Context, k gateKeys) error {
	found, err := i.gate.cfg.Redis.XRevRangeN(ctx, k.shard.Dead(), "+", "-", inspectDeadLetters).Result()
	for _, m := range found {
		row, _ := m.Values["row"].(string)
		if a, err := parseRow(row); err == nil && a.VoucherID == i.voucherID {
			i.view.Letters = append(i.view.Letters, domain.Holder{OrderID: a.OrderID, UserID: a.UserID})
		}
	}
	return err
}

func entryTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")

	// Ids of Redis are well-formed.
	n, _ := strconv.ParseInt(ms, 10, 64)
	return time.UnixMilli(n).UTC()
}

// scan calls visit for the fields of a hash, which it reads in pages. A field that exists from begin to end is visited
// at least once.
func (g *Gate) scan(ctx context.Context, key string, visit func(field, value string)) error {
	scan := g.cfg.Redis.HScan(ctx, key, 0, "", scanCount).Iterator()
	for scan.Next(ctx) {
		field := scan.Val()
		scan.Next(ctx)
		visit(field, scan.Val())
	}
	return scan.Err()
}

// entries calls visit for the entries of a shard's stream after the entry last (empty: for all), which it reads in
// pages. It returns the id of the last entry visited, or last if there was none.
func (g *Gate) entries(ctx context.Context, s Shard, last string, visit func(redis.XMessage)) (string, error) {
	for {
		page, err := g.cfg.Redis.XRangeN(ctx, s.Stream(), after(last), "+", streamPage).Result()
		if err != nil {
			return last, err
		}

		for _, entry := range page {
			visit(entry)
			last = entry.ID
		}

		if len(page) < streamPage {
			return last, nil
		}
	}
}

func after(entry string) string {
	if entry == "" {
		return "-"
	}
	return "(" + entry
}

// Lag reads the backlog from Redis, in one round trip to each node. Error: domain.ErrUnavailable.
func (g *Gate) Lag(ctx context.Context) (domain.QueueLag, error) {
	var clock *redis.TimeCmd
	var entries, users, dead []*redis.IntCmd
	var oldest []*redis.XMessageSliceCmd
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		clock = p.Time(ctx)
		for s := range Shards {
			entries = append(entries, p.XLen(ctx, s.Stream()))
			oldest = append(oldest, p.XRangeN(ctx, s.Stream(), "-", "+", 1))
			users = append(users, p.HLen(ctx, s.Queued()))
			dead = append(dead, p.XLen(ctx, s.Dead()))
		}
		return nil
	})
	if err != nil {
		return domain.QueueLag{}, unavailable(err, "read the lag")
	}

	lag := domain.QueueLag{Unsettled: max(sum(entries), sum(users)), DeadLetters: sum(dead)}
	for _, first := range oldest {
		for _, m := range first.Val() {
			lag.Oldest = max(lag.Oldest, clock.Val().Sub(entryTime(m.ID)).Round(time.Millisecond).Seconds())
		}
	}

	return lag, nil
}

func sum(cmds []*redis.IntCmd) int64 {
	var n int64
	for _, cmd := range cmds {
		n += cmd.Val()
	}
	return n
}
