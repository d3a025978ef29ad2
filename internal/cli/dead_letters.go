package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"seckill/internal/app"
	"seckill/internal/service"
)

// letterTimeout bounds what one command does with the dead letters. Loading a gate is the longest of it.
const letterTimeout = 30 * time.Second

// maxLetters is how many letters one page has at most.
const maxLetters = 500

// deadLettersCmd is for operators who have a shell and no admin's token. It does what the admin's routes do.
type deadLettersCmd struct {
	List    listLettersCmd   `cmd:"" help:"Show dead letters, the newest first."`
	Replay  replayLetterCmd  `cmd:"" help:"Send a dead letter back into the queue, under the same order id."`
	Discard discardLetterCmd `cmd:"" help:"Delete a dead letter for good. Its unit was given back when it was buried."`
}

type listLettersCmd struct {
	Limit int `default:"50" help:"How many, at most 500 (${default})."`
}

// Run prints a row per letter.
func (l listLettersCmd) Run(e *app.Env) error {
	if l.Limit < 1 || l.Limit > maxLetters {
		return fmt.Errorf("--limit must be between 1 and %d", maxLetters)
	}
	return withLetters(e, func(ctx context.Context, letters *service.DeadLetters) error {
		found, err := letters.List(ctx, "", l.Limit)
		if err != nil {
			return fmt.Errorf("list the dead letters: %w", err)
		}
		w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "id\tburied at\torder\tuser\tvoucher\ttries\treason")
		for _, d := range found {
			order, user, voucher := "-", "-", "-" // of one that cannot be read
			if a := d.Admission; a != nil {
				order, user, voucher = decimal(a.OrderID), decimal(a.UserID), decimal(a.VoucherID)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%q\n", d.ID, d.BuriedAt.Format(time.RFC3339), order, user, voucher, d.Tries, d.Reason)
		}
		return w.Flush()
	})
}

type replayLetterCmd struct {
	ID string `arg:"" help:"As list shows it."`
}

// Run replays one letter.
func (r replayLetterCmd) Run(e *app.Env) error {
	return withLetters(e, func(ctx context.Context, letters *service.DeadLetters) error {
		a, err := letters.Replay(ctx, r.ID)
		if err != nil {
			return fmt.Errorf("replay dead letter %s: %w", r.ID, explain(err))
		}
		fmt.Fprintf(e.Out, "order %d of user %d is in the queue again\n", a.OrderID, a.UserID)
		return nil
	})
}

type discardLetterCmd struct {
	ID string `arg:"" help:"As list shows it."`
}

// Run deletes one letter.
func (d discardLetterCmd) Run(e *app.Env) error {
	return withLetters(e, func(ctx context.Context, letters *service.DeadLetters) error {
		if err := letters.Discard(ctx, d.ID); err != nil {
			return fmt.Errorf("discard dead letter %s: %w", d.ID, explain(err))
		}
		fmt.Fprintf(e.Out, "dead letter %s is deleted\n", d.ID)
		return nil
	})
}

// explain says what an operator can make of an error.
func explain(err error) error {
	var duplicate *service.DuplicateOrderError
	switch {
	case errors.Is(err, service.ErrNotFound):
		return fmt.Errorf("%w: replayed or discarded already, or never there", err)
	case errors.Is(err, service.ErrInvalidState):
		return fmt.Errorf("%w: it can only be discarded", err)
	case errors.Is(err, service.ErrSoldOut), errors.As(err, &duplicate):
		return fmt.Errorf("%w; the letter stays", err)
	}
	return err
}

// withLetters opens the Redis and the database of the servers that are configured here.
func withLetters(e *app.Env, do func(context.Context, *service.DeadLetters) error) (err error) {
	rdb, err := app.SharedRedis(e.Config)
	if err != nil {
		return err
	}
	if rdb == nil {
		return fmt.Errorf("no server runs on the data directory %s: its embedded Redis, and the dead letters in it, ended with it", e.Config.DataDir)
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	store, err := app.OpenStore(e.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	ctx, cancel := context.WithTimeout(e.Ctx, letterTimeout)
	defer cancel()
	return do(ctx, &service.DeadLetters{Store: app.NewGate(rdb, e.Config.QueueBacklog, e.Log), Reader: store.GateState})
}

func decimal(id int64) string { return strconv.FormatInt(id, 10) }
