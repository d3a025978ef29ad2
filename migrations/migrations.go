// Package migrations holds the database schema as numbered SQL for goose, one folder a dialect.
//
// MySQL commits every DDL statement by itself, so a migration there is a single statement: one that fails leaves nothing
// half done. A run that was interrupted after a statement and before goose's note of it is continued by the next run, which
// takes "it exists" and "it does not exist" for done.
package migrations

import "embed"

// FS holds mysql/*.sql and sqlite/*.sql.
//
//go:embed mysql/*.sql sqlite/*.sql
var FS embed.FS
