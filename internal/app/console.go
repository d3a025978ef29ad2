package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/auth"
	"seckill/internal/handler"
	"seckill/internal/queue"
	"seckill/internal/repo"
	"seckill/internal/salestats"
	"seckill/internal/service"
)

// statsChannel carries what each process has counted.
const statsChannel = "seckill:pulse"

// maxWaitingMessages bounds the messages that wait for a slow Redis: seconds.
const maxWaitingMessages = 8

// console is what the admins' console needs beside the services: sales as they are now, on all processes.
type console struct {
	rdb         redis.UniversalClient
	log         *slog.Logger
	aggregator  *salestats.Aggregator
	subscribers *salestats.Subscribers
	monitor     *salestats.Monitor
	rushes      *rushes // nil where the server is no demo
	messages    chan []byte
}

// newConsole makes a console, whose aggregator can count at once.
func newConsole(e *Env, rdb redis.UniversalClient, instance string) *console {
	return &console{
		rdb: rdb, log: e.Log, aggregator: salestats.NewAggregator(instance, e.Config.OrderLane != "queue"), subscribers: salestats.NewSubscribers(),
		messages: make(chan []byte, maxWaitingMessages),
	}
}

// watch lets the console look at the sales. The queue is looked at in its own lane.
func (c *console) watch(lane string, store salestats.MonitorStore, g Gate, workers *queue.Workers) {
	cfg := salestats.MonitorConfig{
		Store: store, Aggregator: c.aggregator, Subscribers: c.subscribers, Lane: lane, Publish: c.publish, Log: c.log,
	}
	if lane == "queue" {
		cfg.Level = g.Level
		cfg.Lag = func(ctx context.Context) (salestats.QueueLag, error) {
			lag, err := workers.Lag(ctx)
			return salestats.QueueLag{Unsettled: lag.Unsettled, Oldest: lag.Oldest, DeadLetters: lag.Dead}, err
		}
	}
	c.monitor = salestats.NewMonitor(cfg)
}

// background is what runs beside the requests.
func (c *console) background() []func(context.Context) {
	return []func(context.Context){c.monitor.Run, c.send, c.receive}
}

// serve completes the configuration of the HTTP layer.
func (c *console) serve(cfg *handler.Config, store *repo.Store, tokens *auth.Tokens) {
	cfg.Aggregator, cfg.Monitor, cfg.SaleSubscribers = c.aggregator, c.monitor, c.subscribers
	if cfg.Demo {
		c.rushes = newRushes(store, tokens, cfg.Vouchers)
		cfg.Rush = c.rushes
	}
}

// listen says where the server is.
func (c *console) listen(url string) {
	if c.rushes != nil {
		c.rushes.listen(url)
	}
}

// close ends what would go on for as long as the server does, and waits for it as long as ctx lasts.
func (c *console) close(ctx context.Context) {
	c.subscribers.Close()
	if c.rushes != nil {
		c.rushes.close(ctx)
	}
}

// publish passes a message on. It does not block: what does not fit is lost to the others.
func (c *console) publish(message []byte) {
	select {
	case c.messages <- message:
	default:
	}
}

func (c *console) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case message := <-c.messages:
			if err := c.rdb.Publish(ctx, statsChannel, message).Err(); err != nil && ctx.Err() == nil {
				c.log.Debug("cannot tell the others what was counted", "err", err)
			}
		}
	}
}

func (c *console) receive(ctx context.Context) {
	subscribe(ctx, c.rdb, statsChannel, func(message string) { c.aggregator.Merge([]byte(message), time.Now()) })
}

// batches makes the observer of the lane batch, who also tells the sizes to observe.
func (c *console) batches(observe func(size int)) func([]service.Purchase, []service.Placed) {
	return func(batch []service.Purchase, placed []service.Placed) {
		observe(len(batch))
		c.together(len(batch), func(i int) (int64, error) { return batch[i].VoucherID, placed[i].Err })
	}
}

// commit counts what the workers of the queue store together.
func (c *console) commit(commit queue.CommitFunc) queue.CommitFunc {
	return func(ctx context.Context, as []service.Admission) []error {
		errs := commit(ctx, as)
		c.together(len(errs), func(i int) (int64, error) { return as[i].VoucherID, errs[i] })
		return errs
	}
}

// together counts the orders of each voucher that one transaction stored.
func (c *console) together(n int, outcome func(i int) (voucherID int64, err error)) {
	rows := map[int64]int{}
	for i := range n {
		if voucher, err := outcome(i); err == nil {
			rows[voucher]++
		}
	}
	for voucher, stored := range rows {
		c.aggregator.CountBatch(voucher, stored)
	}
}

// settled makes what is told how admissions ended: it counts them, and tells moved the orders, which somebody may watch.
func (c *console) settled(moved func(orderID int64)) func(service.Parcel) {
	return func(p service.Parcel) {
		c.count(p)
		for i, end := range p.Ends {
			if !end.Again {
				moved(p.Admissions[i].OrderID)
			}
		}
	}
}

// count counts how admissions ended.
func (c *console) count(p service.Parcel) {
	for i, end := range p.Ends {
		switch {
		case end.Again:
		case end.Dead != "":
			c.aggregator.CountSettled(p.Admissions[i].VoucherID, "dead_letter")
		default:
			c.aggregator.CountSettled(p.Admissions[i].VoucherID, end.Failed)
		}
	}
}
