package repo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// errLeaseLost is the error of a run whose key was taken over by another run.
var errLeaseLost = fmt.Errorf("%w: another run has taken over its key", domain.ErrOrderInProgress)

// NoteResource implements service.DeadLetterLog. The time distinguishes a noted resource from the result of an effect.
func (s *Store) NoteResource(ctx context.Context, c *domain.Claim, id int64, at time.Time) error {
	return s.db.RetryUnavailable(ctx, func() error {
		return s.db.RunTx(ctx, func(tx *gorm.DB) error {
			if _, err := lockLease(tx, c); err != nil {
				return err
			}
			return whereKey(tx.Model(&keyRow{}), c).Updates(map[string]any{"resource_id": id, "resource_at": at}).Error
		})
	})
}

// lockLease reads and locks the row of a claim, so that no other run takes over its key before the transaction ends.
// Error: errLeaseLost.
func lockLease(tx *gorm.DB, c *domain.Claim) (keyRow, error) {
	var row keyRow
	err := whereKey(tx.Clauses(sqldb.ForUpdate), c).Select("claim", "done", "resource_id").Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) || err == nil && row.Claim != c.Token {
		return row, errLeaseLost
	}
	return row, err
}

// writeOnce is db.Write for an effect that must happen once per request, even if the request is repeated because its
// answer was lost. Every POST that changes something in one transaction uses it. fn returns the id of the changed
// resource.
//
// If the request has a key (c is not nil), the same transaction sets done and this id in the key's row. If an earlier
// run has set them, nothing changes: again is called with the id in place of fn, and reads the resource for the answer. If
// another run has taken over the key, nothing changes either and the error is domain.ErrOrderInProgress. After an
// unanswered COMMIT the row shows whether the transaction happened. Without a key, writeOnce is db.Write.
//
// As in db.Write, fn may run several times. A request must pass its claim to writeOnce at most once.
func (s *Store) writeOnce(
	ctx context.Context, c *domain.Claim, again func(resourceID int64) error, fn func(tx *gorm.DB) (resourceID int64, err error),
) error {
	if c == nil {
		return s.db.Write(ctx, func(tx *gorm.DB) error {
			_, err := fn(tx)
			return err
		})
	}

	var done *int64
	err := s.db.Write(ctx, func(tx *gorm.DB) error {
		done = nil
		row, err := lockLease(tx, c)
		if err != nil {
			return err
		}
		if row.Done {
			done = row.ResourceID
			return nil
		}

		id, err := fn(tx)
		if err != nil {
			return err
		}

		return whereKey(tx.Model(&keyRow{}), c).Updates(map[string]any{"done": true, "resource_id": id}).Error
	})

	err = s.db.ResolveUnknownCommit(ctx, err, func(tx *gorm.DB) error {
		return whereKey(tx, c).Where("claim = ? AND done = ?", c.Token, true).Select("claim").Take(&keyRow{}).Error
	})
	if err == nil && done != nil {
		return again(*done)
	}

	return err
}

func doneBefore(int64) error { return nil }

// readAgain returns an again of writeOnce that reads the resource into result.
func readAgain[T any](ctx context.Context, result *T, read func(ctx context.Context, id int64) (T, error)) func(id int64) error {
	return func(id int64) error {
		var err error
		*result, err = read(ctx, id)
		return err
	}
}
