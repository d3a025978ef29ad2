package main

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// newsChannel carries the ids of vouchers that changed: a window, a price, a unit that came back.
const newsChannel = "seckill:changed"

// news tells the other processes which vouchers changed. It makes them quicker, not right: what is lost on the way
// they find out by themselves within a second.
type news struct {
	rdb  redis.UniversalClient
	log  *slog.Logger
	sent chan int64
}

func newNews(rdb redis.UniversalClient, log *slog.Logger) *news {
	return &news{rdb: rdb, log: log, sent: make(chan int64, 1024)}
}

// changed passes a voucher on. It does not block: with so many changes waiting, one more is not worth a wait.
func (n *news) changed(voucherID int64) {
	select {
	case n.sent <- voucherID:
	default:
	}
}

// publish sends until ctx ends.
func (n *news) publish(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-n.sent:
			if err := n.rdb.Publish(ctx, newsChannel, id).Err(); err != nil && ctx.Err() == nil {
				n.log.Debug("cannot tell the others of a change", "voucher", id, "err", err)
			}
		}
	}
}

// receive calls forget for each voucher that somebody changed, until ctx ends. The subscription heals by itself.
func (n *news) receive(ctx context.Context, forget func(voucherID int64)) {
	sub := n.rdb.Subscribe(ctx, newsChannel)
	defer func() { _ = sub.Close() }()
	messages := sub.Channel(redis.WithChannelHealthCheckInterval(3 * time.Second))
	for {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			if id, err := strconv.ParseInt(m.Payload, 10, 64); err == nil {
				forget(id)
			}
		}
	}
}
