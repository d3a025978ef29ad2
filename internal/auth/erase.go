package auth

import (
	"context"
	"errors"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/kit/ratelimit"
)

// Erasure is the removal of the person from an account. The row of the user stays without phone, name and role, because
// orders, payments and the audit log refer to it; login codes and stored answers are deleted, and all sessions end. The
// phone can then create a new account.
type Erasure struct {
	UserID int64
	Now    time.Time
	// IdleSince restricts the erasure to a user whom IdleUsers returns for this time, unless it is zero.
	IdleSince time.Time
}

// Erase removes the person from an account, after a call of settle with its user. Its sessions end at once on this instance,
// and within two seconds on every other one. An account with a role above buyer is refused, even with one that takes effect
// only after a login with a second factor, because the role could come back with the next login of its phone. Errors:
// ErrInvalidState (a role), *RateLimitedError, ErrUnauthenticated (the user no longer exists), ErrUnavailable, that of settle.
func (a *Service) Erase(ctx context.Context, id Identity, settle func(ctx context.Context, userID int64) error) error {
	u, err := a.cfg.Store.User(ctx, id.UserID)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return domain.ErrUnauthenticated
	case err != nil:
		return err
	case a.configuredRole(u).OnStaff():
		return domain.ErrInvalidState
	}

	erasure := ratelimit.Bucket{Rule: erasures, Key: u.Phone}
	if err := a.limit(ctx, erasure); err != nil {
		return err
	}

	err = settle(ctx, u.ID)
	if err == nil {
		err = a.erase(ctx, u.ID, time.Time{})
	}
	if err != nil {
		a.giveBack(ctx, erasure)
	}
	return err
}

func (a *Service) erase(ctx context.Context, userID int64, idleSince time.Time) error {
	now := domain.Moment(a.cfg.Now())
	sessions, err := a.cfg.Store.EraseUser(ctx, Erasure{
		UserID:    userID,
		Now:       now,
		IdleSince: idleSince,
	})
	if err != nil {
		return err
	}

	a.cfg.Revoked.Add(now, sessions...)
	return nil
}

const (
	retentionEvery = time.Hour
	retentionPause = 20 * time.Millisecond
)

// RetentionTasks erase the accounts without a login, a session and an order for keep; 0 keeps all. Several instances may
// run them.
func (a *Service) RetentionTasks(keep time.Duration) []loop.Task {
	if keep == 0 {
		return nil
	}

	return []loop.Task{loop.Every(retentionEvery, "erase idle accounts", func(ctx context.Context) error {
		n, err := a.EraseIdle(ctx, keep)
		if n > 0 {
			a.cfg.Log.Info("idle accounts erased", "accounts", n)
		}
		return err
	})}
}

// EraseIdle erases the accounts of buyers that were idle for at least keep, and returns their number. It reads and
// erases in small steps, so that requests do not wait for its locks. Error: ErrUnavailable.
func (a *Service) EraseIdle(ctx context.Context, keep time.Duration) (int, error) {
	since := domain.Moment(a.cfg.Now()).Add(-keep)
	var erased int
	for after := int64(0); ; {
		idle, last, err := a.idleUsers(ctx, after, since)
		if err != nil || last == 0 {
			return erased, err
		}

		for _, u := range idle {
			if a.configuredRole(u) != domain.RoleBuyer {
				continue
			}
			if err := a.eraseIdle(ctx, u.ID, since); err != nil {
				return erased, err
			}

			erased++
		}

		after = last
		if err := loop.Sleep(ctx, retentionPause); err != nil {
			return erased, err
		}
	}
}

func (a *Service) idleUsers(ctx context.Context, after int64, since time.Time) ([]domain.User, int64, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	return a.cfg.Store.IdleUsers(ctx, after, since)
}

func (a *Service) eraseIdle(ctx context.Context, userID int64, since time.Time) error {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	return a.erase(ctx, userID, since)
}
