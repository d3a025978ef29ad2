// Package loop contains the waits of background tasks: a pause that ends with its context, and periodic work.
package loop

import (
	"context"
	"log/slog"
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

// Task is periodic work. It is safe for concurrent use.
type Task struct {
	// Completes "cannot ..." in the log.
	Name  string
	Every time.Duration
	// Starts the next run at once; may be nil.
	Wake <-chan struct{}
	Log  *slog.Logger
	Run  func(context.Context) error
}

// Loop runs the task every t.Every until ctx ends, for the first time after t.Every. Runs do not overlap. Loop logs the
// first of several consecutive errors, and the next success.
func (t Task) Loop(ctx context.Context) {
	tick := time.NewTicker(t.Every)
	defer tick.Stop()

	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-t.Wake:
		}

		err := t.Run(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			t.Log.Warn("cannot "+t.Name+"; will retry", "err", err)
		case err == nil && failing:
			t.Log.Info("recovered: " + t.Name)
		}

		failing = err != nil
	}
}
