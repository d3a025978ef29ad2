package queue

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"log/slog"
	"slices"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed claim.lua
	claimSource string
	//go:embed keep.lua
	keepSource string
	//go:embed sweep.lua
	sweepSource string

	claimScript = redis.NewScript(claimSource)
	keepScript  = redis.NewScript(keepSource)
	sweepScript = redis.NewScript(sweepSource)
)

// claim takes over entries that have been pending for long, and tidies up after consumers that are gone.
func (r *reader) claim(ctx context.Context) ([]entry, error) {
	cfg := &r.w.cfg
	found, err := claimScript.Run(ctx, cfg.Redis, []string{r.stream},
		cfg.Group, cfg.Consumer, cfg.MinIdle.Milliseconds(), cfg.ReadSize).Slice()
	if err != nil {
		return nil, err
	}
	entries := make([]entry, len(found))
	for i, item := range found {
		if entries[i], err = parseClaimed(item); err != nil {
			return nil, err
		}
	}
	// That a name which nobody uses stays in the group is no reason to leave the entries alone.
	err = sweepScript.Run(ctx, cfg.Redis, []string{r.stream}, cfg.Group, cfg.ConsumerIdle.Milliseconds()).Err()
	if err != nil {
		r.log.WarnContext(ctx, "queue: consumers that are gone were not deleted", slog.Any("error", err))
	}
	return entries, nil
}

// parseClaimed reads {id, deliveries, {field, value, ...}}.
func parseClaimed(item any) (entry, error) {
	parts, _ := item.([]any)
	if len(parts) != 3 {
		return entry{}, fmt.Errorf("queue: claim.lua answered %v", item)
	}
	e := entry{fields: map[string]any{}}
	e.Entry, _ = parts[0].(string)
	e.deliveries, _ = parts[1].(int64)
	pairs, _ := parts[2].([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		e.fields[name] = pairs[i+1]
	}
	return e, nil
}

// keep renews the claim on entries in hand and returns those that are still in the stream. The others were settled, or
// Redis lost them: their buyers are told after a while that they failed, so that they must not be committed later. If
// keep fails, another consumer may try the entries too, which is harmless.
func (r *reader) keep(ctx context.Context, entries []entry) []entry {
	args := make([]any, 0, 2+len(entries))
	args = append(args, r.w.cfg.Group, r.w.cfg.Consumer)
	for _, e := range entries {
		args = append(args, e.Entry)
	}
	gone, err := keepScript.Run(ctx, r.w.cfg.Redis, []string{r.stream}, args...).StringSlice()
	if err != nil {
		r.log.DebugContext(ctx, "queue: the claim on entries in hand was not renewed", slog.Any("error", err))
		return entries
	}
	if len(gone) > 0 {
		r.log.WarnContext(ctx, "queue: entries in hand are not in the stream any more and are dropped", slog.Int("entries", len(gone)))
	}
	return slices.DeleteFunc(entries, func(e entry) bool { return slices.Contains(gone, e.Entry) })
}
