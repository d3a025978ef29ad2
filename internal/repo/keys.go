package repo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// keyRow is a row of idempotency_keys with the columns that are read.
type keyRow struct {
	UserID      int64
	IdemKey     []byte
	Fingerprint []byte
	Claim       int64
	Runs        int
	ResourceID  *int64
	ResourceAt  *time.Time
	Done        bool
	Status      int
	Location    string
	ContentType string
	Body        []byte
	// Whether the lease has not ended.
	Locked bool
	// Whether the lifetime is over.
	Expired bool
}

func (keyRow) TableName() string { return "idempotency_keys" }

type keyID struct {
	UserID int64
	Key    string
}

func whereKeys(db *gorm.DB, claims []*domain.Claim) *gorm.DB {
	args := make([]any, 0, 2*len(claims))
	for _, c := range claims {
		args = append(args, c.UserID, []byte(c.Key))
	}
	return db.Where("user_id = ? AND idem_key = ?"+strings.Repeat(" OR user_id = ? AND idem_key = ?", len(claims)-1), args...)
}

func (s *Store) readKeyRows(db *gorm.DB, claims []*domain.Claim) (map[keyID]*keyRow, error) {
	k := s.db.Syntax()
	var rows []keyRow
	err := whereKeys(db, claims).Select("user_id, idem_key, fingerprint, claim, runs, resource_id, resource_at, done, status, location, " +
		"content_type, body, locked_until > " + k.Now + " AS locked, expires_at <= " + k.Now + " AS expired").Find(&rows).Error
	found := make(map[keyID]*keyRow, len(rows))
	for i := range rows {
		found[keyID{rows[i].UserID, string(rows[i].IdemKey)}] = &rows[i]
	}
	return found, err
}

const keyColumns = "INSERT INTO idempotency_keys (user_id, idem_key, fingerprint, claim, runs, done, " +
	"status, location, content_type, body, locked_until, created_at, expires_at) VALUES "

// ClaimKeys implements service.KeyStore. Most keys are new, so one statement inserts all rows; the rows are read only
// if it skipped some. A row identifies its lease by the token of the claim, so the call can be repeated.
func (s *Store) ClaimKeys(ctx context.Context, claims []*domain.Claim) []domain.KeyState {
	states := make([]domain.KeyState, len(claims))
	sorted := sortedClaims(claims)
	err := s.db.RetryUnavailable(ctx, func() error { return s.claimKeys(ctx, claims, sorted, states) })
	if err != nil {
		for i := range states {
			states[i] = domain.KeyState{Err: err}
		}
	}
	return states
}

// sortedClaims returns the claims in the order in which all transactions write their rows. One order prevents
// deadlocks.
func sortedClaims(claims []*domain.Claim) []*domain.Claim {
	return slices.SortedFunc(slices.Values(claims), func(a, b *domain.Claim) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), strings.Compare(a.Key, b.Key))
	})
}

func (s *Store) claimKeys(ctx context.Context, claims, sorted []*domain.Claim, states []domain.KeyState) error {
	var inserted int64

	// A row that exists may be locked by the run that has its lease, and the rest of the batch must not wait for that
	// run.
	unseen := slices.DeleteFunc(slices.Clone(sorted), func(c *domain.Claim) bool { return c.Seen })
	if len(unseen) > 0 {
		full, err := s.usersAtKeyLimit(ctx, unseen)
		if err != nil {
			return err
		}
		if len(full) > 0 {
			return s.claimWithinLimits(ctx, claims, full, states)
		}
		if inserted, err = s.insertKeys(ctx, unseen); err != nil {
			return err
		}
	}

	if inserted == int64(len(claims)) {
		for i := range claims {
			states[i] = domain.KeyState{Runs: 1}
		}
		return s.refuseKeysOfOrders(ctx, claims, states)
	}

	rows, err := s.readKeyRows(s.db.Writer(ctx), sorted)
	if err != nil {
		return err
	}

	var free []*domain.Claim
	for _, c := range sorted {
		if row := rows[keyID{c.UserID, c.Key}]; row != nil && row.canTakeOver(c) {
			free = append(free, c)
		}
	}

	if len(free) > 0 {
		if rows, err = s.takeOver(ctx, sorted, free, rows); err != nil {
			return err
		}
	}

	for i, c := range claims {
		states[i] = rows[keyID{c.UserID, c.Key}].leaseState(c)
	}

	return s.refuseKeysOfOrders(ctx, claims, states)
}

func (s *Store) usersAtKeyLimit(ctx context.Context, claims []*domain.Claim) ([]int64, error) {
	var users []int64
	for _, c := range claims {
		users = append(users, c.UserID)
	}
	var full []int64
	err := s.db.Writer(ctx).Model(&keyRow{}).Where("user_id IN ? AND expires_at > "+s.db.Syntax().Now, users).
		Group("user_id").Having("COUNT(*) >= ?", domain.MaxKeys).Pluck("user_id", &full).Error
	return full, err
}

// claimWithinLimits claims the keys of a batch in which the users in full have reached domain.MaxKeys. These users can
// lease only keys that exist already.
func (s *Store) claimWithinLimits(ctx context.Context, claims []*domain.Claim, full []int64, states []domain.KeyState) error {
	rows, err := s.readKeyRows(s.db.Writer(ctx), claims)
	if err != nil {
		return err
	}

	var others []*domain.Claim
	var at []int
	for i, c := range claims {
		if slices.Contains(full, c.UserID) {
			if rows[keyID{c.UserID, c.Key}] == nil {
				states[i] = domain.KeyState{Err: &domain.RateLimitedError{RetryAfter: domain.KeyLifeOfError}}
				continue
			}
			c.Seen = true
		}

		others = append(others, c)
		at = append(at, i)
	}

	if len(others) == 0 {
		return nil
	}

	found := make([]domain.KeyState, len(others))
	if err := s.claimKeys(ctx, others, sortedClaims(others), found); err != nil {
		return err
	}

	for n, i := range at {
		states[i] = found[n]
	}

	return nil
}

func (s *Store) insertKeys(ctx context.Context, claims []*domain.Claim) (int64, error) {
	k := s.db.Syntax()
	row := "(?,?,?,?,1,0,0,'','',NULL," + fmt.Sprintf(k.InMillis, domain.KeyLease.Milliseconds()) + "," + k.Now + "," +
		fmt.Sprintf(k.InMillis, domain.KeyLife.Milliseconds()) + ")"
	args := make([]any, 0, 4*len(claims))
	for _, c := range claims {
		args = append(args, c.UserID, []byte(c.Key), c.Fingerprint[:], c.Token)
	}
	return s.execStatement(ctx, keyColumns+row+strings.Repeat(","+row, len(claims)-1)+k.SkipExisting, args)
}

func (s *Store) execStatement(ctx context.Context, query string, args []any) (int64, error) {
	res, err := s.db.Writer(ctx).Statement.ConnPool.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// canTakeOver reports whether the claim may take over the row: its lifetime is over, or its lease ended without an
// answer and the request is the same.
func (r *keyRow) canTakeOver(c *domain.Claim) bool {
	return r.Claim != c.Token && (r.Expired || r.Status == 0 && !r.Locked && bytes.Equal(r.Fingerprint, c.Fingerprint[:]))
}

// leaseState returns the outcome of a claim, given its row.
func (r *keyRow) leaseState(c *domain.Claim) domain.KeyState {
	switch {
	case r == nil:
		// Purged between two reads.
		return domain.KeyState{Err: domain.ErrOrderInProgress}
	case r.Claim == c.Token && r.Status == 0:
		st := domain.KeyState{Runs: r.Runs}
		// Noted, and not set by WriteOnce.
		if r.ResourceID != nil && r.ResourceAt != nil {
			st.ResourceID = *r.ResourceID
		}
		return st
	case !bytes.Equal(r.Fingerprint, c.Fingerprint[:]):
		return domain.KeyState{Err: domain.ErrIdempotencyMismatch}
	case r.Status == 0:
		return domain.KeyState{Err: domain.ErrOrderInProgress}
	}

	return domain.KeyState{Answer: &domain.Answer{
		Status:      r.Status,
		Location:    r.Location,
		ContentType: r.ContentType,
		Body:        r.Body,
	}}
}

// takeOver leases the rows of free, whose run died or whose lifetime is over, provided that they have not changed since
// they were read. It returns the rows of all claims as they are then. The resource that an earlier run noted stays;
// that run can no longer write.
func (s *Store) takeOver(ctx context.Context, all, free []*domain.Claim, seen map[keyID]*keyRow) (map[keyID]*keyRow, error) {
	k := s.db.Syntax()
	lease := gorm.Expr(fmt.Sprintf(k.InMillis, domain.KeyLease.Milliseconds()))

	var rows map[keyID]*keyRow
	err := s.db.RunTx(ctx, func(tx *gorm.DB) error {
		for _, c := range free {
			row := seen[keyID{c.UserID, c.Key}]
			mine := whereKeys(tx.Model(&keyRow{}), []*domain.Claim{c}).Where("claim = ?", row.Claim)
			change := map[string]any{"claim": c.Token, "locked_until": lease}
			if row.Expired {
				mine = mine.Where("expires_at <= " + k.Now)

				maps.Copy(change, map[string]any{
					"fingerprint":  c.Fingerprint[:],
					"runs":         1,
					"done":         false,
					"resource_id":  nil,
					"resource_at":  nil,
					"status":       0,
					"location":     "",
					"content_type": "",
					"body":         nil,
					"created_at":   gorm.Expr(k.Now),
					"expires_at":   gorm.Expr(fmt.Sprintf(k.InMillis, domain.KeyLife.Milliseconds())),
				})
			} else {
				mine = mine.Where("status = 0 AND locked_until <= " + k.Now)
				change["runs"] = gorm.Expr("runs + 1")
			}

			if err := mine.Updates(change).Error; err != nil {
				return err
			}
		}

		var err error
		rows, err = s.readKeyRows(tx, all)
		return err
	})

	return rows, err
}

// PurgeKeys implements service.KeyStore. It reads the rows before the transaction, without locks, and deletes them in
// the order of sortedClaims, so that several processes may wait for each other but do not deadlock.
func (s *Store) PurgeKeys(ctx context.Context) (int, error) {
	expired := "expires_at <= " + s.db.Syntax().Now
	var rows []keyRow
	err := s.db.Reader(ctx).Select("user_id", "idem_key").Where(expired).Order("expires_at").Limit(sqldb.PurgeBatch).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return 0, s.db.Translate(err)
	}

	claims := make([]*domain.Claim, len(rows))
	for i, r := range rows {
		claims[i] = &domain.Claim{KeyedRequest: domain.KeyedRequest{UserID: r.UserID, Key: string(r.IdemKey)}}
	}

	err = s.db.Write(ctx, func(tx *gorm.DB) error {
		// Check the time again: a key may have been used anew since it was read.
		return tx.Where(whereKeys(tx.Session(&gorm.Session{NewDB: true}), sortedClaims(claims))).Where(expired).Delete(&keyRow{}).Error
	})

	return len(rows), err
}
