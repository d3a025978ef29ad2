// Package sqlite3 is empty and replaces github.com/mattn/go-sqlite3 (see the replace directive in go.mod).
//
// gorm's SQLite dialect imports that C driver only for its side effect, and this program registers modernc.org/sqlite
// instead. Without the replacement, a first build on a machine with a C compiler would also compile SQLite's C source
// (half a minute) and link SQLite twice into the program.
package sqlite3
