package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/repo"
	"seckill/internal/service"
)

// deadLetterTimeout bounds one command. Most of it may be spent on loading a gate.
const deadLetterTimeout = 30 * time.Second

// maxDeadLetters bounds --limit.
const maxDeadLetters = 500

// deadLettersCmd offers the dead-letter routes of the API to operators without an admin's token.
type deadLettersCmd struct {
	List    listDeadLettersCmd   `cmd:"" help:"List dead letters, newest first."`
	Replay  replayDeadLetterCmd  `cmd:"" help:"Put a dead letter back into the queue with the same order id."`
	Discard discardDeadLetterCmd `cmd:"" help:"Delete a dead letter permanently. Its unit was returned when it was dead-lettered."`
}

type listDeadLettersCmd struct {
	Limit int `default:"50" help:"Number of dead letters, at most 500 (${default})."`
}

// Run prints a row per dead letter.
func (l listDeadLettersCmd) Run(e *app.Env) error {
	if l.Limit < 1 || l.Limit > maxDeadLetters {
		return fmt.Errorf("--limit must be between 1 and %d", maxDeadLetters)
	}
	return withDeadLetters(e, func(ctx context.Context, _ *repo.Store, deadLetters *service.DeadLetters) error {
		found, err := deadLetters.List(ctx, "", l.Limit)
		if err != nil {
			return fmt.Errorf("list the dead letters: %w", err)
		}

		w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "id\tdead-lettered at\torder\tuser\tvoucher\ttries\treason")

		for _, d := range found {
			// A malformed entry has no ids.
			order := "-"
			user := "-"
			voucher := "-"
			if a := d.Admission; a != nil {
				order = decimal(a.OrderID)
				user = decimal(a.UserID)
				voucher = decimal(a.VoucherID)
			}

			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%q\n", d.ID, d.BuriedAt.Format(time.RFC3339), order, user, voucher, d.Tries, d.Reason)
		}

		return w.Flush()
	})
}

type replayDeadLetterCmd struct {
	ID string `arg:"" help:"Id from the output of list."`
}

// Run replays one dead letter.
func (r replayDeadLetterCmd) Run(e *app.Env) error {
	return withDeadLetters(e, func(ctx context.Context, store *repo.Store, deadLetters *service.DeadLetters) error {
		return audited(ctx, store, "dead-letters replay", r.ID, func() error {
			a, err := deadLetters.Replay(ctx, nil, domain.Actor{Kind: domain.ActorSystem}, r.ID)
			if err != nil {
				return fmt.Errorf("replay dead letter %s: %w", r.ID, explain(err))
			}
			fmt.Fprintf(e.Out, "order %d of user %d is back in the queue\n", a.OrderID, a.UserID)
			return nil
		})
	})
}

type discardDeadLetterCmd struct {
	ID string `arg:"" help:"Id from the output of list."`
}

// Run deletes one dead letter.
func (d discardDeadLetterCmd) Run(e *app.Env) error {
	return withDeadLetters(e, func(ctx context.Context, store *repo.Store, deadLetters *service.DeadLetters) error {
		return audited(ctx, store, "dead-letters discard", d.ID, func() error {
			if err := deadLetters.Discard(ctx, nil, domain.Actor{Kind: domain.ActorSystem}, d.ID); err != nil {
				return fmt.Errorf("discard dead letter %s: %w", d.ID, explain(err))
			}
			fmt.Fprintf(e.Out, "dead letter %s deleted\n", d.ID)
			return nil
		})
	})
}

func explain(err error) error {
	_, duplicate := errors.AsType[*domain.DuplicateOrderError](err)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return fmt.Errorf("%w: it was replayed or discarded already, or never existed", err)
	case errors.Is(err, domain.ErrInvalidState):
		return fmt.Errorf("%w: it can only be discarded", err)
	case errors.Is(err, domain.ErrSoldOut), duplicate:
		return fmt.Errorf("%w; the dead letter is kept", err)
	}

	return err
}

func withDeadLetters(e *app.Env, do func(context.Context, *repo.Store, *service.DeadLetters) error) error {
	rdb, err := app.SharedRedis(e.Config)
	if err != nil {
		return err
	}
	if rdb == nil {
		return fmt.Errorf("no server runs on the data directory %s; the dead letters of its embedded Redis were lost when it stopped", e.Config.DataDir)
	}
	defer rdb.Close()

	store, err := app.OpenStore(e.Config)
	if err != nil {
		return err
	}
	defer store.Close()

	ctx, cancel := context.WithTimeout(e.Ctx, deadLetterTimeout)
	defer cancel()

	return do(ctx, store, &service.DeadLetters{
		Store: app.NewGate(rdb, e.Config.QueueBacklog, store.Voucher, e.Log),
		Log:   store,
		Now:   time.Now,
	})
}

func decimal(id int64) string { return strconv.FormatInt(id, 10) }
