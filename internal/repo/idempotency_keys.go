package repo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/service"
)

// maxAnswerBytes bounds the answer bodies in one statement. A server accepts at least 16 MiB, and escaping may double
// them.
const maxAnswerBytes = 2 << 20

// keyDialect is the SQL for idempotency keys that differs between the databases. Leases and lifetimes use the database's
// clock, so the clocks of the instances need not agree.
type keyDialect struct {
	now string // the current time
	// forcePrimary follows the table's name and forces a lookup by the primary key, whatever the statistics suggest.
	forcePrimary string
	inMillis     string // the time %d milliseconds from now
	// skipExisting ends an INSERT that leaves existing rows unchanged.
	skipExisting string
	// storeAnswer ends an INSERT of answers. It stores an answer in the existing row if the row still belongs to
	// the same lease and has no answer.
	storeAnswer string
	// rowsPerAnswer is the number of rows that the driver reports for one stored answer.
	rowsPerAnswer int64
}

// MySQL assigns from left to right, and later assignments see the earlier ones. Therefore status comes last.
const mysqlStoreAnswer = "IF(claim = VALUES(claim) AND status = 0, VALUES(%[1]s), %[1]s)"

var mysqlKeys = keyDialect{
	now: "NOW(3)", inMillis: "NOW(3) + INTERVAL %d * 1000 MICROSECOND", forcePrimary: " FORCE INDEX (PRIMARY)",
	skipExisting:  " ON DUPLICATE KEY UPDATE user_id = user_id",
	storeAnswer:   " ON DUPLICATE KEY UPDATE " + assign(mysqlStoreAnswer, "locked_until", "expires_at", "location", "content_type", "body", "status"),
	rowsPerAnswer: 2,
}

var sqliteKeys = keyDialect{
	now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)", inMillis: "CAST(unixepoch('subsec') * 1000 AS INTEGER) + %d",
	skipExisting: " ON CONFLICT DO NOTHING",
	storeAnswer: " ON CONFLICT DO UPDATE SET " + assign("excluded.%[1]s", "locked_until", "expires_at", "location", "content_type", "body", "status") +
		" WHERE claim = excluded.claim AND status = 0",
	rowsPerAnswer: 1,
}

// assign returns one assignment per column; %[1]s in value is the name of the column.
func assign(value string, columns ...string) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = c + " = " + fmt.Sprintf(value, c)
	}
	return strings.Join(parts, ", ")
}

const keyColumns = "INSERT INTO idempotency_keys (user_id, idem_key, fingerprint, claim, runs, done, resource_id, resource_at, " +
	"status, location, content_type, body, locked_until, created_at, expires_at) VALUES "

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
	Locked      bool // the lease has not ended
	Expired     bool // the lifetime is over
}

func (keyRow) TableName() string { return "idempotency_keys" }

// keyID identifies a row of idempotency_keys.
type keyID struct {
	user int64
	key  string
}

// whereKeys selects the rows of the claimed keys.
func whereKeys(db *gorm.DB, claims []*service.Claim) *gorm.DB {
	args := make([]any, 0, 2*len(claims))
	for _, c := range claims {
		args = append(args, c.UserID, []byte(c.Key))
	}
	return db.Where("user_id = ? AND idem_key = ?"+strings.Repeat(" OR user_id = ? AND idem_key = ?", len(claims)-1), args...)
}

// readKeyRows reads the rows of the claimed keys.
func (s *Store) readKeyRows(db *gorm.DB, claims []*service.Claim) (map[keyID]*keyRow, error) {
	k := s.dialect.keys
	var rows []keyRow
	err := whereKeys(db, claims).Select("user_id, idem_key, fingerprint, claim, runs, resource_id, resource_at, done, status, location, " +
		"content_type, body, locked_until > " + k.now + " AS locked, expires_at <= " + k.now + " AS expired").Find(&rows).Error
	found := make(map[keyID]*keyRow, len(rows))
	for i := range rows {
		found[keyID{rows[i].UserID, string(rows[i].IdemKey)}] = &rows[i]
	}
	return found, err
}

// ClaimKeys implements service.KeyStore. Most keys are new, so one statement inserts all rows; the rows are read only
// if it skipped some. A row identifies its lease by the token of the claim, so the call can be repeated.
func (s *Store) ClaimKeys(ctx context.Context, claims []*service.Claim) []service.KeyState {
	states, sorted := make([]service.KeyState, len(claims)), sortedClaims(claims)
	err := s.retryUnavailable(ctx, func() error { return s.claimKeys(ctx, claims, sorted, states) })
	if err != nil {
		for i := range states {
			states[i] = service.KeyState{Err: err}
		}
	}
	return states
}

// sortedClaims returns the claims in the order in which all transactions write their rows. One order prevents deadlocks.
func sortedClaims(claims []*service.Claim) []*service.Claim {
	return slices.SortedFunc(slices.Values(claims), func(a, b *service.Claim) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), strings.Compare(a.Key, b.Key))
	})
}

// retryUnavailable repeats an idempotent fn if the database is unavailable for a moment, up to maxOutages times in all.
func (s *Store) retryUnavailable(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := s.retry(ctx, fn)
		if !errors.Is(err, domain.ErrUnavailable) || try == maxOutages || !pause(ctx, outagePause) {
			return err
		}
	}
}

func (s *Store) claimKeys(ctx context.Context, claims, sorted []*service.Claim, states []service.KeyState) error {
	var inserted int64
	// A row that exists may be locked by the run that has its lease, and the rest of the batch must not wait for that
	// run.
	unseen := slices.DeleteFunc(slices.Clone(sorted), func(c *service.Claim) bool { return c.Seen })
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
		for i, c := range claims {
			states[i] = service.KeyState{Runs: 1, ResourceID: c.ResourceID, ResourceAt: c.ResourceAt}
		}
		return s.refuseKeysOfOrders(ctx, claims, states)
	}
	rows, err := s.readKeyRows(s.writePool.WithContext(ctx), sorted)
	if err != nil {
		return err
	}
	var free []*service.Claim
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

// usersAtKeyLimit returns the users of the claims that have service.MaxKeys keys.
func (s *Store) usersAtKeyLimit(ctx context.Context, claims []*service.Claim) (full []int64, err error) {
	var users []int64
	for _, c := range claims {
		users = append(users, c.UserID)
	}
	err = s.writePool.WithContext(ctx).Model(&keyRow{}).Where("user_id IN ? AND expires_at > "+s.dialect.keys.now, users).
		Group("user_id").Having("COUNT(*) >= ?", service.MaxKeys).Pluck("user_id", &full).Error
	return full, err
}

// claimWithinLimits claims the keys of a batch in which the users in full have reached service.MaxKeys. These users can
// lease only keys that exist already.
func (s *Store) claimWithinLimits(ctx context.Context, claims []*service.Claim, full []int64, states []service.KeyState) error {
	rows, err := s.readKeyRows(s.writePool.WithContext(ctx), claims)
	if err != nil {
		return err
	}
	var others []*service.Claim
	var at []int
	for i, c := range claims {
		if slices.Contains(full, c.UserID) {
			if rows[keyID{c.UserID, c.Key}] == nil {
				states[i] = service.KeyState{Err: &domain.RateLimitedError{RetryAfter: service.KeyLifeOfError}}
				continue
			}
			c.Seen = true
		}
		others, at = append(others, c), append(at, i)
	}
	if len(others) == 0 {
		return nil
	}
	found := make([]service.KeyState, len(others))
	if err := s.claimKeys(ctx, others, sortedClaims(others), found); err != nil {
		return err
	}
	for n, i := range at {
		states[i] = found[n]
	}
	return nil
}

// insertKeys inserts the rows that do not exist yet and returns their number.
func (s *Store) insertKeys(ctx context.Context, claims []*service.Claim) (int64, error) {
	k := s.dialect.keys
	row := "(?,?,?,?,1,0,?,?,0,'','',NULL," + fmt.Sprintf(k.inMillis, service.KeyLease.Milliseconds()) + "," + k.now + "," +
		fmt.Sprintf(k.inMillis, service.KeyLife.Milliseconds()) + ")"
	args := make([]any, 0, 6*len(claims))
	for _, c := range claims {
		id, at := resourceColumns(c)
		args = append(args, c.UserID, []byte(c.Key), c.Fingerprint[:], c.Token, id, at)
	}
	return s.execStatement(ctx, keyColumns+row+strings.Repeat(","+row, len(claims)-1)+k.skipExisting, args)
}

// execStatement runs one statement outside a transaction and returns the number of changed rows.
func (s *Store) execStatement(ctx context.Context, query string, args []any) (int64, error) {
	res, err := s.writePool.Statement.ConnPool.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// resourceColumns returns the resource columns of a claim, NULL if it has no resource.
func resourceColumns(c *service.Claim) (id, at any) {
	if c.ResourceID == 0 {
		return nil, nil
	}
	return c.ResourceID, c.ResourceAt
}

// canTakeOver reports whether the claim may take over the row: its lifetime is over, or its lease ended without an
// answer and the request is the same.
func (r *keyRow) canTakeOver(c *service.Claim) bool {
	return r.Claim != c.Token && (r.Expired || r.Status == 0 && !r.Locked && bytes.Equal(r.Fingerprint, c.Fingerprint[:]))
}

// leaseState returns the outcome of a claim, given its row.
func (r *keyRow) leaseState(c *service.Claim) service.KeyState {
	switch {
	case r == nil: // purged between two reads
		return service.KeyState{Err: domain.ErrOrderInProgress}
	case r.Claim == c.Token && r.Status == 0:
		st := service.KeyState{Runs: r.Runs}
		if r.ResourceID != nil && r.ResourceAt != nil {
			st.ResourceID, st.ResourceAt = *r.ResourceID, r.ResourceAt.UTC()
		}
		return st
	case !bytes.Equal(r.Fingerprint, c.Fingerprint[:]):
		return service.KeyState{Err: domain.ErrIdempotencyMismatch}
	case r.Status == 0:
		return service.KeyState{Err: domain.ErrOrderInProgress}
	}
	return service.KeyState{Answer: &service.Answer{Status: r.Status, Location: r.Location, ContentType: r.ContentType, Body: r.Body}}
}

// takeOver leases the rows of free, whose run died or whose lifetime is over, provided that they have not changed since
// they were read. It returns the rows of all claims as they are then. The resource that an earlier run noted stays; that
// run can no longer write.
func (s *Store) takeOver(ctx context.Context, all, free []*service.Claim, seen map[keyID]*keyRow) (rows map[keyID]*keyRow, err error) {
	k := s.dialect.keys
	lease := gorm.Expr(fmt.Sprintf(k.inMillis, service.KeyLease.Milliseconds()))
	err = s.runTx(ctx, func(tx *gorm.DB) error {
		for _, c := range free {
			row := seen[keyID{c.UserID, c.Key}]
			id, at := resourceColumns(c)
			mine := whereKeys(tx.Model(&keyRow{}), []*service.Claim{c}).Where("claim = ?", row.Claim)
			change := map[string]any{"claim": c.Token, "locked_until": lease}
			if row.Expired {
				mine = mine.Where("expires_at <= " + k.now)
				for column, value := range map[string]any{
					"fingerprint": c.Fingerprint[:], "runs": 1, "done": false, "resource_id": id, "resource_at": at, "status": 0,
					"location": "", "content_type": "", "body": nil, "created_at": gorm.Expr(k.now),
					"expires_at": gorm.Expr(fmt.Sprintf(k.inMillis, service.KeyLife.Milliseconds())),
				} {
					change[column] = value
				}
			} else {
				mine = mine.Where("status = 0 AND locked_until <= " + k.now)
				change["runs"] = gorm.Expr("runs + 1")
				if row.ResourceID == nil {
					change["resource_id"], change["resource_at"] = gorm.Expr("COALESCE(resource_id, ?)", id), gorm.Expr("COALESCE(resource_at, ?)", at)
				}
			}
			if err := mine.Updates(change).Error; err != nil {
				return err
			}
		}
		rows, err = s.readKeyRows(tx, all)
		return err
	})
	return rows, err
}

// errLeaseLost is the error of a run whose key was taken over by another run.
var errLeaseLost = fmt.Errorf("%w: another run has taken over its key", domain.ErrOrderInProgress)

// KeepAnswers implements service.KeyStore. It stores up to maxAnswerBytes of answers with one statement, and reads the
// rows only if the statement did not change all of them.
func (s *Store) KeepAnswers(ctx context.Context, answers []service.KeptAnswer) []error {
	errs := make([]error, len(answers))
	order := make([]int, len(answers))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := answers[a].Claim, answers[b].Claim
		return cmp.Or(cmp.Compare(x.UserID, y.UserID), strings.Compare(x.Key, y.Key))
	})
	for len(order) > 0 {
		n, size := 0, 0
		for n < len(order) && (n == 0 || size+len(answers[order[n]].Answer.Body) <= maxAnswerBytes) {
			size += len(answers[order[n]].Answer.Body)
			n++
		}
		some := order[:n]
		order = order[n:]
		if err := s.retryUnavailable(ctx, func() error { return s.keepAnswers(ctx, answers, some, errs) }); err != nil {
			for _, i := range some {
				errs[i] = err
			}
		}
	}
	return errs
}

func (s *Store) keepAnswers(ctx context.Context, answers []service.KeptAnswer, some []int, errs []error) error {
	k := s.dialect.keys
	var rows []string
	args := make([]any, 0, 10*len(some))
	claims := make([]*service.Claim, 0, len(some))
	for _, i := range some {
		c, a := answers[i].Claim, &answers[i].Answer
		if a.Transient {
			a = &service.Answer{}
		}
		id, at := resourceColumns(c)
		args = append(args, c.UserID, []byte(c.Key), c.Fingerprint[:], c.Token, id, at, a.Status, a.Location, a.ContentType, a.Body)
		life := service.KeyLife
		if a.Status >= http.StatusBadRequest {
			life = service.KeyLifeOfError
		}
		rows = append(rows, "(?,?,?,?,1,0,?,?,?,?,?,?,"+k.now+","+k.now+","+fmt.Sprintf(k.inMillis, life.Milliseconds())+")")
		claims = append(claims, c)
	}
	changed, err := s.execStatement(ctx, keyColumns+strings.Join(rows, ",")+k.storeAnswer, args)
	if err != nil || changed == k.rowsPerAnswer*int64(len(some)) {
		return err
	}
	stored, err := s.readKeyRows(s.writePool.WithContext(ctx), claims)
	if err != nil {
		return err
	}
	for n, i := range some {
		if row := stored[keyID{claims[n].UserID, claims[n].Key}]; row == nil || row.Claim != claims[n].Token {
			errs[i] = errLeaseLost
		}
	}
	return nil
}

// NoteResources implements service.KeyStore.
func (s *Store) NoteResources(ctx context.Context, claims []*service.Claim) []error {
	errs := make([]error, len(claims))
	at := make(map[*service.Claim]int, len(claims))
	for i, c := range claims {
		at[c] = i
	}
	err := s.retryUnavailable(ctx, func() error {
		return s.runTx(ctx, func(tx *gorm.DB) error {
			clear(errs)
			for _, c := range sortedClaims(claims) {
				_, err := lockLease(tx, c)
				if errors.Is(err, errLeaseLost) {
					errs[at[c]] = err
					continue
				}
				if err != nil {
					return err
				}
				err = whereKeys(tx.Model(&keyRow{}), []*service.Claim{c}).
					Updates(map[string]any{"resource_id": c.ResourceID, "resource_at": c.ResourceAt}).Error
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

// lockLease reads and locks the row of a claim, so that no other run takes over its key before the transaction ends.
// Error: errLeaseLost.
func lockLease(tx *gorm.DB, c *service.Claim) (keyRow, error) {
	var row keyRow
	err := whereKeys(tx.Clauses(forUpdate), []*service.Claim{c}).Select("claim", "done", "resource_id").Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) || err == nil && row.Claim != c.Token {
		return row, errLeaseLost
	}
	return row, err
}

// writeOnce is write for an effect that must happen once per request, even if the request is repeated because its answer
// was lost. Every POST that changes something in one transaction uses it. fn returns the id of the changed resource.
//
// If the request has a key (service.ClaimOf(ctx)), the same transaction sets done and this id in the key's row. If an
// earlier run has set them, fn does not run, nothing changes, and the error is a *service.DoneBeforeError with the id;
// package service then answers from that resource. If another run has taken over the key, nothing changes either and
// the error is domain.ErrOrderInProgress. After an unanswered COMMIT the row shows whether the transaction happened.
// Without a key, writeOnce is write.
//
// As in write, fn may run several times. A request must call writeOnce at most once.
func (s *Store) writeOnce(ctx context.Context, fn func(tx *gorm.DB) (resourceID int64, err error)) error {
	c := service.ClaimOf(ctx)
	if c == nil {
		return s.write(ctx, func(tx *gorm.DB) error {
			_, err := fn(tx)
			return err
		})
	}
	err := s.write(ctx, func(tx *gorm.DB) error {
		row, err := lockLease(tx, c)
		if err != nil {
			return err
		}
		if row.Done {
			return &service.DoneBeforeError{ResourceID: *row.ResourceID}
		}
		id, err := fn(tx)
		if err != nil {
			return err
		}
		return whereKeys(tx.Model(&keyRow{}), []*service.Claim{c}).Updates(map[string]any{"done": true, "resource_id": id}).Error
	})
	return s.resolveUnknownCommit(ctx, err, func(tx *gorm.DB) error {
		return whereKeys(tx, []*service.Claim{c}).Where("claim = ? AND done = ?", c.Token, true).Select("claim").Take(&keyRow{}).Error
	})
}

// PurgeKeys implements service.KeyStore. It reads the rows before the transaction, without locks, and deletes them in
// the order of sortedClaims, so that several processes may wait for each other but do not deadlock.
func (s *Store) PurgeKeys(ctx context.Context) (int, error) {
	expired := "expires_at <= " + s.dialect.keys.now
	var rows []keyRow
	err := s.readPool.WithContext(ctx).Select("user_id", "idem_key").Where(expired).Order("expires_at").Limit(purgeBatch).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return 0, s.translate(err)
	}
	claims := make([]*service.Claim, len(rows))
	for i, r := range rows {
		claims[i] = &service.Claim{KeyedRequest: service.KeyedRequest{UserID: r.UserID, Key: string(r.IdemKey)}}
	}
	err = s.write(ctx, func(tx *gorm.DB) error {
		// Check the time again: a key may have been used anew since it was read.
		return tx.Where(whereKeys(tx.Session(&gorm.Session{NewDB: true}), sortedClaims(claims))).Where(expired).Delete(&keyRow{}).Error
	})
	return len(rows), err
}
