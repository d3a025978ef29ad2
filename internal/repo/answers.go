package repo

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"seckill/internal/domain"
)

// maxAnswerBytes bounds the answer bodies in one statement. A server accepts at least 16 MiB, and escaping may double
// them.
const maxAnswerBytes = 2 << 20

// MySQL assigns from left to right, and later assignments see the earlier ones. Therefore status comes last.
const mysqlStoreAnswer = "IF(claim = VALUES(claim) AND status = 0, VALUES(%[1]s), %[1]s)"

// storeAnswers ends an INSERT of answers, by database. It stores an answer in the existing row if the row still belongs
// to the same lease and has no answer. rows is the number of rows that the driver reports for one stored answer.
var storeAnswers = map[string]struct {
	sql  string
	rows int64
}{
	"mysql": {" ON DUPLICATE KEY UPDATE " + assign(mysqlStoreAnswer, "locked_until", "expires_at", "location", "content_type", "body", "status"), 2},
	"sqlite": {" ON CONFLICT DO UPDATE SET " + assign("excluded.%[1]s", "locked_until", "expires_at", "location", "content_type", "body", "status") +
		" WHERE claim = excluded.claim AND status = 0", 1},
}

// assign returns one assignment per column; %[1]s in value is the name of the column.
func assign(value string, columns ...string) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = c + " = " + fmt.Sprintf(value, c)
	}
	return strings.Join(parts, ", ")
}

// KeepAnswers implements service.KeyStore. It stores up to maxAnswerBytes of answers with one statement, and reads the
// rows only if the statement did not change all of them.
func (s *Store) KeepAnswers(ctx context.Context, answers []domain.KeptAnswer) []error {
	errs := make([]error, len(answers))
	order := make([]int, len(answers))
	for i := range order {
		order[i] = i
	}

	slices.SortFunc(order, func(a, b int) int {
		x := answers[a].Claim
		y := answers[b].Claim
		return cmp.Or(cmp.Compare(x.UserID, y.UserID), strings.Compare(x.Key, y.Key))
	})

	for len(order) > 0 {
		n := 0
		size := 0
		for n < len(order) && (n == 0 || size+len(answers[order[n]].Answer.Body) <= maxAnswerBytes) {
			size += len(answers[order[n]].Answer.Body)
			n++
		}

		some := order[:n]
		order = order[n:]

		if err := s.db.RetryUnavailable(ctx, func() error { return s.keepAnswers(ctx, answers, some, errs) }); err != nil {
			for _, i := range some {
				errs[i] = err
			}
		}
	}

	return errs
}

func (s *Store) keepAnswers(ctx context.Context, answers []domain.KeptAnswer, some []int, errs []error) error {
	k := s.db.Syntax()
	var rows []string
	args := make([]any, 0, 8*len(some))
	claims := make([]*domain.Claim, 0, len(some))

	for _, i := range some {
		c := answers[i].Claim
		a := &answers[i].Answer
		if a.Transient {
			a = &domain.Answer{}
		}

		args = append(args, c.UserID, []byte(c.Key), c.Fingerprint[:], c.Token, a.Status, a.Location, a.ContentType, a.Body)
		life := domain.KeyLife
		if a.Status >= http.StatusBadRequest {
			life = domain.KeyLifeOfError
		}

		rows = append(rows, "(?,?,?,?,1,0,?,?,?,?,"+k.Now+","+k.Now+","+fmt.Sprintf(k.InMillis, life.Milliseconds())+")")
		claims = append(claims, c)
	}

	end := storeAnswers[s.db.Dialect()]
	changed, err := s.execStatement(ctx, keyColumns+strings.Join(rows, ",")+end.sql, args)
	if err != nil || changed == end.rows*int64(len(some)) {
		return err
	}

	stored, err := s.readKeyRows(s.db.Writer(ctx), claims)
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

// KeysOf implements domain.PersonalStore.
func (s *Store) KeysOf(ctx context.Context, userID int64, after string, limit int) ([]domain.KeyRecord, error) {
	var rows []struct {
		IdemKey              []byte
		CreatedAt, ExpiresAt time.Time
	}

	err := s.db.Reader(ctx).Table("idempotency_keys").Where("user_id = ? AND idem_key > ?", userID, []byte(after)).
		Order("idem_key").Limit(limit).Find(&rows).Error

	found := make([]domain.KeyRecord, len(rows))
	for i, r := range rows {
		found[i] = domain.KeyRecord{
			Key:       string(r.IdemKey),
			CreatedAt: r.CreatedAt,
			ExpiresAt: r.ExpiresAt,
		}
	}

	return found, s.db.Translate(err)
}
