package queue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

// entry is a stream entry as it was delivered. Until triage has parsed it, its StreamEntry has only the id.
type entry struct {
	domain.StreamEntry
	fields map[string]any
	// When the database first refused the generation that the gate still has; zero if it did not.
	refused time.Time
}

type reader struct {
	w      *Workers
	stream string
	log    *slog.Logger
	// Time of the next claim of stale entries.
	claimAt time.Time
}

// run reads until reading ends. It handles the entries that it has read until working ends.
func (r *reader) run(reading, working context.Context) {
	var pause backoff
	for reading.Err() == nil {
		err := r.cycle(reading, working)
		if noGroup(err) {
			err = r.createGroup(reading)
		}

		switch {
		case err == nil:
			pause.reset(reading, r.log, "queue: stream readable again")
		case reading.Err() == nil:
			// The loop checks reading.
			_ = pause.wait(reading, r.log, "queue: cannot read the stream", err)
		}
	}
}

func (r *reader) cycle(reading, working context.Context) error {
	asked := time.Now()
	if !asked.Before(r.claimAt) {
		stale, err := r.claim(reading)
		if err != nil {
			return err
		}

		if len(stale) < r.w.cfg.ReadSize {
			r.claimAt = asked.Add(r.w.cfg.ClaimEvery)
		}

		r.handle(working, stale, true, asked)
	}

	asked = time.Now()
	fresh, err := r.read(reading)
	if err != nil {
		return err
	}

	r.handle(working, fresh, false, asked)
	return nil
}

// readGrace is the time beyond Config.Block that the reply of a read may take. Entries of a reply that comes later are
// pending for this consumer, and are claimed when they are stale.
const readGrace = 3 * time.Second

// read waits for new entries, at most until the next claim is due. The client does not interrupt a blocking read when
// ctx ends, so the read must be short.
func (r *reader) read(ctx context.Context) ([]entry, error) {
	ctx, cancel := context.WithTimeout(ctx, r.w.cfg.Block+readGrace)
	defer cancel()

	streams, err := r.w.cfg.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group:    r.w.cfg.Group,
		Consumer: r.w.cfg.Consumer,
		Streams:  []string{r.stream, ">"},
		Count:    int64(r.w.cfg.ReadSize),
		// 0 would block for ever.
		Block: max(min(r.w.cfg.Block, time.Until(r.claimAt)), time.Millisecond),
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	var entries []entry
	for _, s := range streams {
		for _, m := range s.Messages {
			entries = append(entries, entry{
				StreamEntry: domain.StreamEntry{Entry: m.ID},
				fields:      m.Values,
			})
		}
	}

	return entries, nil
}

// createGroup creates the group, and the stream if necessary. The group starts at the first entry, because all entries
// in the stream are unsettled.
func (r *reader) createGroup(ctx context.Context) error {
	err := r.w.cfg.Redis.XGroupCreateMkStream(ctx, r.stream, r.w.cfg.Group, "0").Err()
	if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") {
		// Another reader has created it.
		return nil
	}
	return err
}

// noGroup reports whether err means that the stream or the group does not exist. It searches the text because Redis 6.2
// wraps the errors of scripts.
func noGroup(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	return strings.Contains(text, "NOGROUP") || strings.Contains(text, "no such key") || strings.HasPrefix(text, "UNBLOCKED")
}

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
