package salestats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seckill/internal/domain"
)

// pollTimeFactor is the pause after a successful poll as a multiple of its duration.
const pollTimeFactor = 10

// pollSchedule determines how often a value is polled. The pause after a poll is pollTimeFactor times its duration,
// within the two bounds. After a failed poll it is minPause, so that a recovery is detected soon.
type pollSchedule struct{ minPause, maxPause, timeout time.Duration }

// poller polls a value with one goroutine at a time, and keeps the last result.
type poller[T any] struct {
	mu sync.Mutex
	// The value of the last successful poll.
	value T
	// When that poll began.
	at time.Time
	// The error of the last poll.
	err error
	// Whether a poll has ended since the last expire.
	fresh   bool
	next    time.Time // not before
	running chan struct{}
}

// start polls in the background unless a poll runs or the next one is not due. The caller holds the monitor's lock.
func (p *poller[T]) start(m *Monitor, s pollSchedule, read func(context.Context) (T, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil && !m.stopped && !time.Now().Before(p.next) {
		p.running = make(chan struct{})
		m.polls.Go(func() { p.poll(m, s, read) })
	}
}

// idle reports whether no poll runs and the next one may start.
func (p *poller[T]) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running == nil && !time.Now().Before(p.next)
}

// expire marks the value as old.
func (p *poller[T]) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = false
}

// pending returns a channel that is closed at the end of the running poll, or nil if the value is fresh or no poll
// runs.
func (p *poller[T]) pending() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fresh {
		return nil
	}
	return p.running
}

func (p *poller[T]) poll(m *Monitor, s pollSchedule, read func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(m.ctx, s.timeout)
	defer cancel()

	start := time.Now()
	value, err := read(ctx)
	took := time.Since(start)

	if err != nil && m.ctx.Err() == nil && !errors.Is(err, domain.ErrNotFound) {
		m.cfg.Log.Debug("cannot read sale statistics", "err", err)
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	pause := s.minPause
	p.err = err
	p.fresh = true
	if err == nil {
		p.value = value
		p.at = start
		pause = min(max(pause, pollTimeFactor*took), s.maxPause)
	}

	p.next = time.Now().Add(pause)
	close(p.running)
	p.running = nil
}

// last returns the value of the last successful poll, when that began, and the error of the last poll.
func (p *poller[T]) last() (T, time.Time, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.value, p.at, p.err
}

// await waits until done is closed. A nil channel is not waited for.
func await(ctx context.Context, done <-chan struct{}) error {
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", domain.ErrUnavailable, ctx.Err())
	}
}
