package queue

import (
	"context"
	"log/slog"
	"time"
)

const (
	shortestPause = 100 * time.Millisecond
	longestPause  = time.Second
)

// backoff spaces the tries of something that fails, and logs when that begins and when it ends, but not each time.
type backoff struct {
	pause time.Duration // the last one; 0: nothing fails
}

func (b *backoff) failed(ctx context.Context, log *slog.Logger, message string, err error) {
	if b.pause == 0 {
		log.ErrorContext(ctx, message, slog.Any("error", err))
	}
}

func (b *backoff) reset(ctx context.Context, log *slog.Logger, message string) {
	if b.pause != 0 {
		log.InfoContext(ctx, message)
	}
	b.pause = 0
}

// wait pauses longer than the last time. It returns the error of ctx when that ends.
func (b *backoff) wait(ctx context.Context) error {
	b.pause = min(max(shortestPause, 2*b.pause), longestPause)
	timer := time.NewTimer(b.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
