package sqldb

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// filledRows is the number of rows that fill gives each table.
const filledRows = 12

// columnInfo describes a column of a table.
type columnInfo struct {
	Table, Name, Type   string
	Nullable, Generated bool
}

// columnsOf returns the columns of all tables except that of goose, in their order.
func columnsOf(t *testing.T, a Access) (all []columnInfo) {
	t.Helper()
	query := `SELECT m.name AS "table", c.name, lower(c.type) AS type, c."notnull" = 0 AS nullable, c.hidden > 0 AS generated
		FROM sqlite_master m, pragma_table_xinfo(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name <> 'goose_db_version' ORDER BY m.name, c.cid`
	if a.Dialect() == "mysql" {
		query = "SELECT table_name AS `table`, column_name AS name, data_type AS type, is_nullable = 'YES' AS nullable, " +
			"COALESCE(generation_expression, '') <> '' AS `generated` FROM information_schema.columns " +
			"WHERE table_schema = DATABASE() AND table_name <> 'goose_db_version' ORDER BY table_name, ordinal_position"
	}
	require.NoError(t, a.Writer(t.Context()).Raw(query).Scan(&all).Error)
	require.NotEmpty(t, all)
	return all
}

// fill gives every table filledRows rows. The second half of them has no value where it may have none, and the orders and
// payments of each half have every status.
func fill(t *testing.T, a Access) {
	t.Helper()
	byTable := map[string][]columnInfo{}
	for _, c := range columnsOf(t, a) {
		if !c.Generated {
			byTable[c.Table] = append(byTable[c.Table], c)
		}
	}
	for table, columns := range byTable {
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = c.Name
		}
		insert := "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(names)-1) + ")"
		for row := range filledRows {
			values := make([]any, len(columns))
			for i, c := range columns {
				values[i] = c.value(row)
			}
			_, err := a.Pools()["write"].ExecContext(t.Context(), insert, values...)
			require.NoError(t, err, table)
		}
	}
}

// value returns the content of the column in a row. That of the first column of a table differs from row to row.
func (c columnInfo) value(row int) any {
	number := row + 1
	switch {
	case c.Nullable && row >= filledRows/2:
		return nil
	case c.Name == "status":
		return number%6 + 1
	case strings.HasPrefix(c.Type, "datetime"):
		return time.Date(2026, 11, 11, 12, 0, number, 123e6, time.UTC)
	case strings.Contains(c.Type, "int"), c.Type == "double", c.Type == "real":
		return number
	case strings.Contains(c.Type, "bin"), strings.HasSuffix(c.Type, "blob"):
		return []byte{byte(number), 0xff}
	default:
		return fmt.Sprintf("%c%d", 'a'+rune(row), number)
	}
}

// readColumns returns the content of all columns, by "table.column". Those of one table have the same order of rows.
func readColumns(t *testing.T, a Access) map[string][]string {
	t.Helper()
	content, order := map[string][]string{}, map[string]string{}
	for _, c := range columnsOf(t, a) {
		if order[c.Table] == "" {
			order[c.Table] = c.Name
		}
		var values []sql.NullString
		query := "SELECT " + c.Name + " FROM " + c.Table + " ORDER BY " + order[c.Table]
		require.NoError(t, a.Writer(t.Context()).Raw(query).Scan(&values).Error, query)
		for _, v := range values {
			content[c.Table+"."+c.Name] = append(content[c.Table+"."+c.Name], fmt.Sprintf("%t %q", v.Valid, v.String))
		}
	}
	return content
}

// requireKept compares the columns that there were before a migration and are there now. Migration 22 deletes the login
// codes, which live for two minutes.
func requireKept(t *testing.T, before, after map[string][]string, migration string) {
	t.Helper()
	for column, values := range before {
		if now, ok := after[column]; ok && !strings.HasPrefix(column, "login_codes.") {
			require.Equal(t, values, now, "%s after the migration %s", column, migration)
		}
	}
}
