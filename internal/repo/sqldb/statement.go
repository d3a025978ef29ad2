package sqldb

import (
	"strings"

	"gorm.io/gorm"
)

// Statement is SQL text with its arguments. Statements that run for every order are built this way, because gorm's
// reflection over some hundred arguments costs more than executing them.
type Statement struct {
	sql    strings.Builder
	args   []any
	listed bool
}

// Add appends SQL text and its arguments.
func (q *Statement) Add(sql string, args ...any) *Statement {
	q.sql.WriteString(sql)
	q.args = append(q.args, args...)
	return q
}

// Or appends a condition to the list of conditions of the statement, of which one must hold. A statement has one list.
func (q *Statement) Or(sql string, args ...any) {
	if q.listed {
		q.Add(" OR ")
	}
	q.listed = true
	q.Add(sql, args...)
}

// In appends an IN list. values must not be empty.
func (q *Statement) In(values []any) {
	q.Add(" IN (?"+strings.Repeat(",?", len(values)-1)+")", values...)
}

// QueryRows runs a query and scans its rows.
func QueryRows[T any](tx *gorm.DB, q *Statement) ([]T, error) {
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
