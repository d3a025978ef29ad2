package repo

import (
	"strings"

	"gorm.io/gorm"
)

// handwritten is SQL text with its arguments. Statements that run for every order are built this way, because gorm's
// reflection over some hundred arguments costs more than executing them.
type handwritten struct {
	sql  strings.Builder
	args []any
}

// add appends SQL text and its arguments.
func (q *handwritten) add(sql string, args ...any) *handwritten {
	q.sql.WriteString(sql)
	q.args = append(q.args, args...)
	return q
}

// in appends an IN list. values must not be empty.
func (q *handwritten) in(values []any) {
	q.add(" IN (?"+strings.Repeat(",?", len(values)-1)+")", values...)
}

// find runs a query and scans its rows.
func find[T any](tx *gorm.DB, q *handwritten) ([]T, error) {
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
