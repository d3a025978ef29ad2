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
	// The last pause; 0 after a success.
	pause time.Duration
}

func (b *backoff) failed(ctx context.Context, log *slog.Logger, message string, err error) {
	if b.pause == 0 {
		log.ErrorContext(ctx, message, slog.Any("err", err))
	}
}

func (b *backoff) reset(ctx context.Context, log *slog.Logger, message string) {
	if b.pause != 0 {
		log.InfoContext(ctx, message)
	}
	b.pause = 0
}

// wait pauses for twice the last pause, within 100 ms and 1 s. It returns the cause of ctx if that ends first.
func (b *backoff) wait(ctx context.Context) error {
	b.pause = min(max(shortestPause, 2*b.pause), longestPause)
	return loop.Sleep(ctx, b.pause)
}
