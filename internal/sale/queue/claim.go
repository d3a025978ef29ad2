package queue

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/claim.lua
	claimSource string
	//go:embed lua/renew.lua
	renewSource string
	//go:embed lua/delete_consumers.lua
	deleteConsumersSource string

	claimScript           = redis.NewScript(claimSource)
	renewScript           = redis.NewScript(renewSource)
	deleteConsumersScript = redis.NewScript(deleteConsumersSource)
)

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

	// A failure to delete consumers is harmless, so the claimed entries are handled all the same.
	err = deleteConsumersScript.Run(ctx, cfg.Redis, []string{r.stream}, cfg.Group, cfg.ConsumerIdle.Milliseconds()).Err()
	if err != nil {
		r.log.WarnContext(ctx, "queue: cannot delete idle consumers", slog.Any("err", err))
	}

	return entries, nil
}

func parseClaimed(item any) (entry, error) {
	parts, _ := item.([]any)
	if len(parts) != 2 {
		return entry{}, fmt.Errorf("queue: claim.lua returned %v", item)
	}

	e := entry{fields: map[string]any{}}
	e.Entry, _ = parts[0].(string)
	pairs, _ := parts[1].([]any)

	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		e.fields[name] = pairs[i+1]
	}

	return e, nil
}

// renewClaims renews the claim on entries that the reader keeps in memory. It returns those that are still in the stream,
// and a time before Redis looked for them. The others were settled, or Redis lost them. Lost admissions must not be
// committed later, because their buyers see them as failed after a while. renewClaims retries
// until ctx ends; then it returns all entries and an error.
func (r *reader) renewClaims(ctx context.Context, entries []entry) ([]entry, time.Time, error) {
	args := make([]any, 0, 2+len(entries))
	args = append(args, r.w.cfg.Group, r.w.cfg.Consumer)
	for _, e := range entries {
		args = append(args, e.Entry)
	}

	var gone []string
	var asked time.Time
	err := r.persist(ctx, func() error {
		var err error
		asked = time.Now()
		gone, err = renewScript.Run(ctx, r.w.cfg.Redis, []string{r.stream}, args...).StringSlice()
		return err
	})
	if err != nil {
		return entries, asked, err
	}

	if len(gone) > 0 {
		r.log.WarnContext(ctx, "queue: dropping entries that are not in the stream any more", slog.Int("entries", len(gone)))
	}

	rest := slices.DeleteFunc(entries, func(e entry) bool { return slices.Contains(gone, e.Entry) })
	return rest, asked, nil
}
