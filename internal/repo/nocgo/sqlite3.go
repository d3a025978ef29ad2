// Package sqlite3 is empty and takes the place of github.com/mattn/go-sqlite3 (a replace line in go.mod).
//
// gorm's SQLite dialect imports that C driver for its side effect only, and we register modernc.org/sqlite
// instead. Without this stand-in, a first build on a machine that has a C compiler would compile SQLite's
// C source as well (half a minute) and link two SQLites into the program.
package sqlite3
