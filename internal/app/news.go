package app

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The channels of news.
const (
	// vouchersChannel carries the ids of vouchers that changed: a window, a price, a unit that came back.
	VouchersChannel = "seckill:changed"
	// ordersChannel carries the ids of orders that were moved after they were placed.
	OrdersChannel = "seckill:moved"
)

const (
	// newsWaiting bounds the ids that wait to be sent: more are not worth a wait.
	newsWaiting = 8192
	// newsTogether bounds the ids of one message.
	newsTogether = 500
)

// news tells the other processes the ids of things that changed. It makes them quicker, not right: what is lost on the
// way they find out by themselves, of vouchers within a second.
type news struct {
	rdb     redis.UniversalClient
	log     *slog.Logger
	channel string
	sent    chan int64
}

func newNews(rdb redis.UniversalClient, log *slog.Logger, channel string) *news {
	return &news{rdb: rdb, log: log, channel: channel, sent: make(chan int64, newsWaiting)}
}

// changed passes an id on. It does not block.
func (n *news) changed(id int64) {
	select {
	case n.sent <- id:
	default:
	}
}

// publish sends until ctx ends. What waits goes together.
func (n *news) publish(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-n.sent:
			message := strconv.AppendInt(nil, id, 10)
			for more := min(len(n.sent), newsTogether-1); more > 0; more-- {
				message = strconv.AppendInt(append(message, ','), <-n.sent, 10)
			}
			if err := n.rdb.Publish(ctx, n.channel, message).Err(); err != nil && ctx.Err() == nil {
				n.log.Debug("cannot tell the others of a change", "channel", n.channel, "err", err)
			}
		}
	}
}

// receive calls heard for each id that somebody sent, until ctx ends. The subscription heals by itself.
func (n *news) receive(ctx context.Context, heard func(id int64)) {
	subscribe(ctx, n.rdb, n.channel, func(message string) {
		for text := range strings.SplitSeq(message, ",") {
			if id, err := strconv.ParseInt(text, 10, 64); err == nil {
				heard(id)
			}
		}
	})
}

// subscribe calls heard for each message on a channel, until ctx ends. The subscription heals by itself; what was said
// meanwhile is lost.
func subscribe(ctx context.Context, rdb redis.UniversalClient, channel string, heard func(message string)) {
	sub := rdb.Subscribe(ctx, channel)
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
			heard(m.Payload)
		}
	}
}
