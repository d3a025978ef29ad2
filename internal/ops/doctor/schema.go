package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// schemaQuery, by dialect, tests whether goose's table exists. Calling goose itself would create it.
var schemaQuery = map[string]string{
	"mysql":  "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'goose_db_version'",
	"sqlite": "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'goose_db_version'",
}

func checkSchema(ctx context.Context, pool *sql.DB, dialect string, known []int64, fix func(error) string) Result {
	applied, err := appliedMigrations(ctx, pool, dialect)
	if err != nil {
		return Unanswered(err, fix(err))
	}
	return schemaResult(applied, known)
}

func schemaResult(applied, known []int64) Result {
	pending := without(known, applied)
	newer := without(applied, known)
	switch {
	case len(newer) > 0:
		return Bad(Fail, "run the version of seckill that created the schema, or a newer one",
			"the schema has %d migrations unknown to this program (newest: %d)", len(newer), slices.Max(newer))
	case len(pending) > 0:
		return Bad(Warn, "seckill migrate up, well before the sale (a starting server does the same)",
			"%d of %d migrations are pending, starting with %d", len(pending), len(known), pending[0])
	}

	return Good("the schema is at the program's version, %d", slices.Max(known))
}

func without[T comparable](list, other []T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return slices.Contains(other, v) })
}

// appliedMigrations returns the applied schema versions; none if there is no schema. It is read-only.
func appliedMigrations(ctx context.Context, pool *sql.DB, dialect string) ([]int64, error) {
	var n int
	if err := pool.QueryRowContext(ctx, schemaQuery[dialect]).Scan(&n); err != nil || n == 0 {
		return nil, err
	}

	var versions []int64
	query := "SELECT version_id FROM goose_db_version WHERE version_id > 0 AND is_applied"
	err := eachRow(ctx, pool, query, func(rows *sql.Rows) error {
		var version int64
		err := rows.Scan(&version)
		versions = append(versions, version)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the schema version: %w", err)
	}

	return versions, nil
}

func eachRow(ctx context.Context, pool *sql.DB, query string, read func(*sql.Rows) error) error {
	rows, err := pool.QueryContext(ctx, query)
	if err != nil {
		return err
	}

	// rows.Err reports the error.
	defer func() { _ = rows.Close() }()

	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}

	return rows.Err()
}
