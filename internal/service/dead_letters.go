package service

import (
	"context"
	"errors"
	"time"
)

// DeadLetter is an admission that could not be made an order, nor refused for a reason of the sale: an operator must
// look at it. Its unit was given back, and its buyer was told that the order failed.
type DeadLetter struct {
	ID        string
	Admission *Admission        // nil if the entry cannot be read; such a letter cannot be replayed
	Fields    map[string]string // as they were in the stream
	Entry     string            // its id there
	Reason    string
	Tries     int64
	BuriedAt  time.Time
}

// DeadLetterStore keeps dead letters.
type DeadLetterStore interface {
	// DeadLetters shows at most limit letters, the newest first, after the letter with the id before (empty: from
	// the newest). Error: ErrNotFound (before is no id).
	DeadLetters(ctx context.Context, before string, limit int) ([]DeadLetter, error)
	// DeadLetter shows one letter. Error: ErrNotFound.
	DeadLetter(ctx context.Context, id string) (DeadLetter, error)
	// Replay sends a letter back into the queue: unit and buyer are reserved again. Errors: ErrNotFound,
	// ErrInvalidState (it cannot be read), ErrGateCold, ErrSoldOut, *DuplicateOrderError.
	Replay(ctx context.Context, id string) (Admission, error)
	// Discard deletes a letter. Error: ErrNotFound.
	Discard(ctx context.Context, id string) error
	// Load makes sure that the gate of a voucher is loaded.
	Load(ctx context.Context, voucherID int64, read GateReader) error
}

// DeadLetters lets an operator look at dead letters and decide about them. It is safe for concurrent use.
type DeadLetters struct {
	Store  DeadLetterStore
	Reader GateReader
}

// List shows a page of letters, the newest first. Errors: *InvalidError, ErrUnavailable.
func (d *DeadLetters) List(ctx context.Context, before string, limit int) ([]DeadLetter, error) {
	letters, err := d.Store.DeadLetters(ctx, before, limit)
	if errors.Is(err, ErrNotFound) {
		return nil, Invalid("cursor", "must be a next_cursor of this list")
	}
	return letters, err
}

// Replay sends a letter back into the queue under the same order id, as if it had just been admitted; the window of
// the sale does not count, for the buyer came in time. A request that runs again and finds the letter gone takes it for
// replayed by its earlier run; the order tells what became of it. Errors: ErrNotFound, ErrInvalidState, ErrSoldOut,
// *DuplicateOrderError, ErrUnavailable: then the letter stays.
func (d *DeadLetters) Replay(ctx context.Context, id string) (Admission, error) {
	earlier, err := d.note(ctx, id)
	if err != nil {
		return Admission{}, err
	}
	for range maxLoads {
		a, err := d.Store.Replay(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound) && earlier != 0:
			return Admission{OrderID: earlier}, nil
		case !errors.Is(err, ErrGateCold):
			return a, err
		}
		if err := d.Store.Load(ctx, a.VoucherID, d.Reader); err != nil {
			return a, err
		}
	}
	return Admission{}, ErrUnavailable
}

// Discard deletes a letter for good. A request that runs again and finds the letter gone has done so.
// Errors: ErrNotFound, ErrUnavailable.
func (d *DeadLetters) Discard(ctx context.Context, id string) error {
	earlier, err := d.note(ctx, id)
	if err != nil {
		return err
	}
	err = d.Store.Discard(ctx, id)
	if errors.Is(err, ErrNotFound) && earlier != 0 {
		return nil
	}
	return err
}

// note has a request with a key note what the letter is about before it is gone. earlier is what its earlier run
// noted, 0 if nothing: that run saw the letter, and may have decided about it.
func (d *DeadLetters) note(ctx context.Context, id string) (earlier int64, err error) {
	c := ClaimOf(ctx)
	switch {
	case c == nil:
		return 0, nil
	case c.ResourceID != 0:
		return c.ResourceID, nil
	}
	l, err := d.Store.DeadLetter(ctx, id)
	if err != nil {
		return 0, err
	}
	subject := l.BuriedAt.UnixMilli() // of one that cannot be read: only that it was there counts
	if l.Admission != nil {
		subject = l.Admission.OrderID
	}
	return 0, c.Note(ctx, subject, l.BuriedAt)
}
