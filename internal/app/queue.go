package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
	"seckill/internal/kit/redisconn"
	"seckill/internal/ops/salestats"
	"seckill/internal/sale/admission"
	"seckill/internal/sale/queue"
)

// QueueChannel returns a pub/sub channel without messages. Its subscribers are the servers in lane queue. The databases of a
// Redis share their channels, so the number of the database is part of the name.
func QueueChannel(rdb redis.UniversalClient) string {
	const channel = "seckill:queue"
	if client, ok := rdb.(*redis.Client); ok && client.Options().DB > 0 {
		return fmt.Sprintf("%s:%d", channel, client.Options().DB)
	}
	return channel
}

func (w *wiring) subscribeToQueue(ctx context.Context) error {
	return redisconn.Receive(ctx, w.rdb, QueueChannel(w.rdb), func(string) {})
}

func newInstance() string {
	// For readability; the random part makes the name unique.
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:8])
}

// NewGate returns a gate. backlog limits the users with queued orders per shard. voucher returns a voucher, whose segments
// the gate needs for every call; a voucher that does not exist has one.
func NewGate(
	rdb redis.UniversalClient, backlog int, voucher func(context.Context, int64) (domain.Voucher, error), log *slog.Logger,
) *admission.Gate {
	segments := func(ctx context.Context, voucherID int64) (int, error) {
		v, err := voucher(ctx, voucherID)
		if errors.Is(err, domain.ErrNotFound) || err == nil && v.Sale == nil {
			return 1, nil
		}
		if err != nil {
			return 0, err
		}

		return max(1, v.Sale.Segments), nil
	}

	return admission.New(admission.Config{
		Redis:      rdb,
		MaxBacklog: backlog,
		Segments:   segments,
		Log:        log,
	})
}

func (w *wiring) newWorkers(gate *admission.Gate, commit queue.CommitFunc, counters *salestats.Counters, moved func(orderID int64)) *queue.Workers {
	settled := func(p domain.StreamEntry) {
		for i, end := range p.Ends {
			if end.Again {
				continue
			}

			reason := end.Failed
			if end.Dead != "" {
				reason = "dead_letter"
			}

			w.metrics.settled.WithLabelValues(cmp.Or(reason, "ok")).Inc()
			if i < len(p.Admissions) {
				counters.CountSettled(p.Admissions[i].VoucherID, reason)
				moved(p.Admissions[i].OrderID)
			}
		}
	}

	cfg := queue.Config{
		Redis:    w.rdb,
		Streams:  admission.Streams(),
		Group:    admission.Group,
		Consumer: w.instance,
		Gate:     gate,
		Commit:   commit,
		LoadGate: func(ctx context.Context, voucherID int64) error { return gate.Load(ctx, voucherID, w.store) },
		Settled:  settled,
		Log:      w.log,
	}
	if w.env.Parts.Workers != nil {
		w.env.Parts.Workers(&cfg)
	}

	return queue.New(cfg)
}
