// Package migrations holds the database schema as numbered SQL for goose, in one folder per dialect.
//
// MySQL commits each DDL statement by itself. Where possible, a migration there is a single statement, so that a
// failure leaves nothing half done. A run that is interrupted after a statement and before goose records the migration
// is continued by the next run, which treats the errors "exists already" and "does not exist" as done.
package migrations

import "embed"

// FS holds mysql/*.sql and sqlite/*.sql.
//
//go:embed mysql/*.sql sqlite/*.sql
var FS embed.FS
