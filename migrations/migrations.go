// Package migrations holds the database schema as numbered SQL for goose, one folder a dialect.
//
// MySQL commits every DDL statement by itself, so a migration there is a single statement: one that fails
// leaves nothing half done.
package migrations

import "embed"

// FS holds mysql/*.sql and sqlite/*.sql.
//
//go:embed mysql/*.sql sqlite/*.sql
var FS embed.FS
