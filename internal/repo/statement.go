package repo

import (
	"strings"

	"gorm.io/gorm"
)

// statement is SQL text with its arguments. Statements that run for every order are built this way, because gorm's
// reflection over some hundred arguments costs more than executing them.
type statement struct {
	sql  strings.Builder
	args []any
}

// add appends SQL text and its arguments.
func (q *statement) add(sql string, args ...any) *statement {
	q.sql.WriteString(sql)
	q.args = append(q.args, args...)
	return q
}

// in appends an IN list. values must not be empty.
func (q *statement) in(values []any) {
	q.add(" IN (?"+strings.Repeat(",?", len(values)-1)+")", values...)
}

// except excludes the ids of the rows from the result.
func (q *statement) except(rows []*pendingInsert) {
	if len(rows) == 0 {
		return
	}
	ids := make([]any, len(rows))
	for i, p := range rows {
		ids[i] = p.row.ID
	}
	q.add(" AND id NOT").in(ids)
}

// queryRows runs a query and scans its rows.
func queryRows[T any](tx *gorm.DB, q *statement) ([]T, error) {
	rows, err := tx.Statement.ConnPool.QueryContext(tx.Statement.Context, q.sql.String(), q.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []T
	for rows.Next() {
		var row T
		if err := tx.ScanRows(rows, &row); err != nil {
			return nil, err
		}
		found = append(found, row)
	}
	return found, rows.Err()
}
