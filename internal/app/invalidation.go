package app

import (
	"context"
	"log/slog"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"seckill/internal/kit/loop"
	"seckill/internal/kit/redisconn"
)

// The pub/sub channels of invalidation messages.
const (
	// VouchersChannel carries the ids of vouchers that changed: a window, a price, a returned unit.
	VouchersChannel = "seckill:changed"
	// OrdersChannel carries the ids of orders whose status changed after they were placed or queued.
	OrdersChannel = "seckill:moved"
)

const (
	maxPendingIDs    = 8192 // ids that wait to be sent; further ids are dropped
	maxIDsPerMessage = 500
)

// invalidationBus sends the ids of changed objects to all servers, this one included. Delivery is best effort: messages
// only shorten the time until a server notices a change, which for vouchers is at most a second without them.
type invalidationBus struct {
	rdb     redis.UniversalClient
	log     *slog.Logger
	channel string
	pending chan int64
}

func newInvalidationBus(rdb redis.UniversalClient, log *slog.Logger, channel string) *invalidationBus {
	return &invalidationBus{
		rdb:     rdb,
		log:     log,
		channel: channel,
		pending: make(chan int64, maxPendingIDs),
	}
}

// publish queues an id for sending. It never blocks: if the queue is full, the id is dropped.
func (b *invalidationBus) publish(id int64) {
	select {
	case b.pending <- id:
	default:
	}
}

func (b *invalidationBus) tasks(what string, handle func(id int64)) []loop.Task {
	return []loop.Task{
		loop.Always("publish "+what, b.send),
		loop.Always("receive "+what, func(ctx context.Context) { b.receive(ctx, handle) }),
	}
}

func (b *invalidationBus) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-b.pending:
			message := strconv.AppendInt(nil, id, 10)
			for more := min(len(b.pending), maxIDsPerMessage-1); more > 0; more-- {
				message = strconv.AppendInt(append(message, ','), <-b.pending, 10)
			}

			if err := b.rdb.Publish(ctx, b.channel, message).Err(); err != nil && ctx.Err() == nil {
				b.log.Debug("cannot publish an invalidation message", "channel", b.channel, "err", err)
			}
		}
	}
}

func (b *invalidationBus) receive(ctx context.Context, handle func(id int64)) {
	// Without a client there is nothing to receive.
	_ = redisconn.Receive(ctx, b.rdb, b.channel, func(message string) {
		for text := range strings.SplitSeq(message, ",") {
			if id, err := strconv.ParseInt(text, 10, 64); err == nil {
				handle(id)
			}
		}
	})
}
