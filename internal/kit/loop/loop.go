// Package loop contains what background tasks have in common: pauses, periodic work, and work in batches.
package loop

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// Sleep waits for d. It returns the cause of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const (
	// batchTimeout bounds one batch of InBatches.
	batchTimeout = 3 * time.Second
	batchPause   = 20 * time.Millisecond
)

// InBatches calls batch until it finds nothing more, with pauses in which others can use the locks. A batch returns how
// many rows it found.
func InBatches(ctx context.Context, batch func(context.Context) (int, error)) error {
	for {
		n, err := within(ctx, batch)
		if err != nil || n == 0 {
			return err
		}
		if err := Sleep(ctx, batchPause); err != nil {
			return err
		}
	}
}

func within(ctx context.Context, batch func(context.Context) (int, error)) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	return batch(ctx)
}

// All calls do for all items at the same time, and returns the results in the order of the items.
func All[T, R any](items []T, do func(T) R) []R {
	results := make([]R, len(items))
	var running sync.WaitGroup
	for i, item := range items {
		running.Go(func() { results[i] = do(item) })
	}
	running.Wait()
	return results
}

// EachDue claims batches of at most most items that are due, and calls do for the items of a batch at the same time, until
// a batch is not full. It returns the first error after it has tried all items.
func EachDue[T any](
	ctx context.Context, most int, claim func(ctx context.Context, most int) ([]T, error), do func(context.Context, T) error,
) error {
	var failed error
	for ctx.Err() == nil {
		due, err := claim(ctx, most)
		if err != nil {
			return cmp.Or(failed, err)
		}

		errs := All(due, func(item T) error { return do(ctx, item) })
		failed = cmp.Or(failed, cmp.Or(errs...))
		if len(due) < most {
			return failed
		}
	}

	return ctx.Err()
}

// Backoff returns the pause after a failure: first, and then twice as long after each of the earlier ones, up to last.
func Backoff(first, last time.Duration, earlier int) time.Duration {
	pause := first
	for range earlier {
		if pause >= last {
			break
		}
		pause *= 2
	}
	return min(pause, last)
}

// Task is work in the background. It is safe for concurrent use.
type Task struct {
	// Completes "cannot ..." in the log.
	Name string
	// 0: Run is called once, and lasts until its context ends.
	Every time.Duration
	Run   func(context.Context) error
}

// Every returns a task that runs at an interval.
func Every(interval time.Duration, name string, run func(context.Context) error) Task {
	return Task{
		Name:  name,
		Every: interval,
		Run:   run,
	}
}

// Always returns a task that runs once, until its context ends.
func Always(name string, run func(context.Context)) Task {
	return Task{Name: name, Run: func(ctx context.Context) error {
		run(ctx)
		return nil
	}}
}

// Run runs tasks until ctx ends, and waits for the ends of their runs.
func Run(ctx context.Context, log *slog.Logger, tasks ...Task) {
	var running sync.WaitGroup
	for _, t := range tasks {
		running.Go(func() { t.loop(ctx, log) })
	}
	running.Wait()
}

// loop runs the task every t.Every, for the first time after t.Every. Runs do not overlap. It logs the first of several
// consecutive errors, and the next success.
func (t Task) loop(ctx context.Context, log *slog.Logger) {
	if t.Every == 0 {
		if err := t.Run(ctx); err != nil && ctx.Err() == nil {
			log.Error("cannot "+t.Name, "err", err)
		}
		return
	}

	tick := time.NewTicker(t.Every)
	defer tick.Stop()

	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		err := t.Run(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			log.Warn("cannot "+t.Name+"; will retry", "err", err)
		case err == nil && failing:
			log.Info("recovered: " + t.Name)
		}

		failing = err != nil
	}
}
