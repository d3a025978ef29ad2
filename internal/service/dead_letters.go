package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"seckill/internal/domain"
)

// DeadLetterStore stores dead letters. Errors: ErrUnavailable, besides those given below.
type DeadLetterStore interface {
	// DeadLetters returns at most limit dead letters, newest first, after the one with the id before. An empty before
	// starts at the newest. Error: ErrNotFound (before is not an id).
	DeadLetters(ctx context.Context, before string, limit int) ([]domain.DeadLetter, error)
	// DeadLetter returns one dead letter. Error: ErrNotFound.
	DeadLetter(ctx context.Context, id string) (domain.DeadLetter, error)
	// Replay reserves a unit for a dead letter again and puts it back into the queue. Errors: ErrNotFound,
	// ErrInvalidState (it cannot be parsed), ErrGateCold (the admission has the voucher to Load), ErrSoldOut,
	// *DuplicateOrderError.
	Replay(ctx context.Context, id string) (domain.Admission, error)
	// Discard deletes a dead letter. Error: ErrNotFound.
	Discard(ctx context.Context, id string) error
	// Load ensures that the gate of a voucher is loaded.
	Load(ctx context.Context, voucherID int64, store domain.GateStore) error
}

// DeadLetterLog is the database as DeadLetters uses it. Error: ErrUnavailable.
type DeadLetterLog interface {
	domain.GateStore
	// NoteResource stores the resource of a request before an effect outside the database (domain.Claim). Error:
	// ErrOrderInProgress (another run has taken over the key, so this one must stop).
	NoteResource(ctx context.Context, c *domain.Claim, id int64, at time.Time) error
	// RecordChange stores an entry.
	RecordChange(ctx context.Context, e domain.AuditEntry) error
	// AuditLog returns the matching entries, newest first.
	AuditLog(ctx context.Context, f domain.AuditFilter) ([]domain.AuditEntry, error)
}

// The actions on dead letters in the audit log. The detail of an entry is the id of the dead letter.
const (
	ActionReplay  = "replay_dead_letter"
	ActionDiscard = "discard_dead_letter"
)

// replayLoads bounds the loads of a cold gate in one replay.
const replayLoads = 5

// DeadLetters lists, replays and discards dead letters for operators. It is safe for concurrent use.
type DeadLetters struct {
	Store DeadLetterStore
	Log   DeadLetterLog
	Now   func() time.Time
}

// List returns a page of dead letters, newest first. Errors: *InvalidError (before), ErrUnavailable.
func (d *DeadLetters) List(ctx context.Context, before string, limit int) ([]domain.DeadLetter, error) {
	letters, err := d.Store.DeadLetters(ctx, before, limit)
	if errors.Is(err, domain.ErrNotFound) {
		return nil, domain.Invalid("cursor", "must be a next_cursor of this list")
	}
	return letters, err
}

// Replay puts a dead letter back into the queue under the same order id, as if it had just been admitted. The window of
// the sale is not checked, because the purchase was made within it.
//
// If the dead letter is gone and an earlier run of the same request found it, Replay assumes that the earlier run has
// replayed it, and returns its order id. Errors: ErrNotFound, ErrInvalidState, ErrSoldOut, *DuplicateOrderError,
// ErrUnavailable. After ErrUnavailable the dead letter may or may not have been replayed, with or without an entry in the
// audit log; after any other error it is unchanged.
func (d *DeadLetters) Replay(ctx context.Context, c *domain.Claim, by domain.Actor, id string) (domain.Admission, error) {
	earlier, err := d.noteResource(ctx, c, id)
	if err != nil {
		return domain.Admission{}, err
	}

	for range replayLoads {
		a, err := d.Store.Replay(ctx, id)
		switch {
		case err == nil:
			return a, d.record(ctx, ActionReplay, by, id, &a)
		case errors.Is(err, domain.ErrNotFound) && earlier != 0:
			a := domain.Admission{OrderID: earlier}
			return a, d.recordMissing(ctx, ActionReplay, by, id, &a)
		case !errors.Is(err, domain.ErrGateCold):
			return a, err
		}

		if err := d.Store.Load(ctx, a.VoucherID, d.Log); err != nil {
			return a, err
		}
	}

	return domain.Admission{}, domain.ErrUnavailable
}

// Discard deletes a dead letter. It succeeds if the dead letter is gone and an earlier run of the same request found
// it. Errors: ErrNotFound, ErrUnavailable, which means the same as in Replay.
func (d *DeadLetters) Discard(ctx context.Context, c *domain.Claim, by domain.Actor, id string) error {
	earlier, err := d.noteResource(ctx, c, id)
	if err != nil {
		return err
	}

	l, err := d.Store.DeadLetter(ctx, id)
	if err == nil {
		err = d.Store.Discard(ctx, id)
	}

	switch {
	case err == nil:
		return d.record(ctx, ActionDiscard, by, id, l.Admission)
	case errors.Is(err, domain.ErrNotFound) && earlier != 0:
		return d.recordMissing(ctx, ActionDiscard, by, id, nil)
	}

	return err
}

// record writes the audit log after an action on a dead letter, which is in Redis and therefore cannot share a
// transaction with the log. a is nil if it is unknown.
func (d *DeadLetters) record(ctx context.Context, action string, by domain.Actor, id string, a *domain.Admission) error {
	e := domain.AuditEntry{
		At:     domain.Moment(d.Now()),
		Actor:  by,
		Action: action,
		Detail: id,
	}

	if a != nil {
		e.VoucherID = a.VoucherID
		e.OrderID = a.OrderID
	}

	return d.Log.RecordChange(ctx, e)
}

// recordMissing is record for an action of an earlier run of the request, which may have been recorded.
func (d *DeadLetters) recordMissing(ctx context.Context, action string, by domain.Actor, id string, a *domain.Admission) error {
	recent, err := d.Log.AuditLog(ctx, domain.AuditFilter{ActorID: by.ID, Page: domain.Page{Limit: domain.MaxPageSize}})
	if err != nil || slices.ContainsFunc(recent, func(e domain.AuditEntry) bool { return e.Action == action && e.Detail == id }) {
		return err
	}
	return d.record(ctx, action, by, id, a)
}

// noteResource stores the order id of the dead letter with the idempotency key of the request, if it has one. It must
// be called before the dead letter is removed. The result is the id that an earlier run of the request has stored, or 0:
// that run found the dead letter, and may have replayed or discarded it.
func (d *DeadLetters) noteResource(ctx context.Context, c *domain.Claim, id string) (int64, error) {
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

	// Without an order id: any number other than 0 shows that the dead letter was found.
	subject := l.BuriedAt.UnixMilli()
	if l.Admission != nil {
		subject = l.Admission.OrderID
	}

	return 0, d.Log.NoteResource(ctx, c, subject, l.BuriedAt)
}
