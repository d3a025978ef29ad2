package queue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

// entry is an entry of a stream as it was delivered. Of its parcel nothing but the id is known before it is parsed.
type entry struct {
	service.Parcel
	fields     map[string]any
	deliveries int64
}

// reader is the one who reads one stream.
type reader struct {
	w       *Workers
	stream  string
	log     *slog.Logger
	claimAt time.Time // when to look for stale entries again
}

// run reads until reading ends. What it reads it still handles, until working ends.
func (r *reader) run(reading, working context.Context) {
	var pause backoff
	for reading.Err() == nil {
		err := r.turn(reading, working)
		if noGroup(err) {
			err = r.createGroup(reading)
		}
		switch {
		case err == nil:
			pause.reset(reading, r.log, "queue: the stream can be read again")
		case reading.Err() == nil:
			pause.failed(reading, r.log, "queue: the stream cannot be read", err)
			_ = pause.wait(reading) // the loop sees its end
		}
	}
}

// turn claims stale entries if it is time, and reads new ones.
func (r *reader) turn(reading, working context.Context) error {
	if now := time.Now(); !now.Before(r.claimAt) {
		stale, err := r.claim(reading)
		if err != nil {
			return err
		}
		if len(stale) < r.w.cfg.ReadSize {
			r.claimAt = now.Add(r.w.cfg.ClaimEvery)
		}
		r.handle(working, stale, true)
	}
	fresh, err := r.read(reading)
	if err != nil {
		return err
	}
	r.handle(working, fresh, false)
	return nil
}

// readGrace is how much longer than Config.Block the reply of a read may take. What comes too late is pending for this
// consumer, and claimed when it is stale.
const readGrace = 3 * time.Second

// read waits for new entries, but not beyond the next claim. The end of ctx does not interrupt a read in flight,
// which therefore is short.
func (r *reader) read(ctx context.Context) ([]entry, error) {
	ctx, cancel := context.WithTimeout(ctx, r.w.cfg.Block+readGrace)
	defer cancel()
	streams, err := r.w.cfg.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: r.w.cfg.Group, Consumer: r.w.cfg.Consumer, Streams: []string{r.stream, ">"},
		Count: int64(r.w.cfg.ReadSize),
		Block: max(min(r.w.cfg.Block, time.Until(r.claimAt)), time.Millisecond), // 0 would be for ever
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
			entries = append(entries, entry{Parcel: service.Parcel{Entry: m.ID}, fields: m.Values, deliveries: 1})
		}
	}
	return entries, nil
}

// createGroup begins at the start of the stream: what is in it has not been settled.
func (r *reader) createGroup(ctx context.Context) error {
	err := r.w.cfg.Redis.XGroupCreateMkStream(ctx, r.stream, r.w.cfg.Group, "0").Err()
	if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return nil // somebody else was faster
	}
	return err
}

// noGroup says whether Redis complains that it does not know the stream or the group. Redis 6.2 wraps the errors of
// scripts into its own words.
func noGroup(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	return strings.Contains(text, "NOGROUP") || strings.Contains(text, "no such key") || strings.HasPrefix(text, "UNBLOCKED")
}
