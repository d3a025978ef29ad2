package queue

import (
	"context"
	"log/slog"
	"time"

	"seckill/internal/kit/loop"
)

const (
	shortestPause = 100 * time.Millisecond
	longestPause  = time.Second
)

// backoff spaces the attempts of a failing operation. It logs the first failure and the recovery.
type backoff struct {
	// In a row.
	failures int
}

func (b *backoff) reset(ctx context.Context, log *slog.Logger, message string) {
	if b.failures != 0 {
		log.InfoContext(ctx, message)
	}
	b.failures = 0
}

func (b *backoff) wait(ctx context.Context, log *slog.Logger, message string, failure error) error {
	if b.failures == 0 {
		log.ErrorContext(ctx, message, slog.Any("err", failure))
	}
	b.failures++
	return loop.Sleep(ctx, loop.Backoff(shortestPause, longestPause, b.failures-1))
}
