// Command seckill is a flash-sale backend. One binary contains the server and the commands to migrate the schema, seed
// users, verify the invariants, reconcile, check the environment, simulate load and handle dead letters.
//
// Without flags it runs on an embedded database (SQLite in ./data) and an embedded Redis.
package main

import (
	"os"
	_ "time/tzdata" // for SECKILL_TIMEZONE on systems without a time zone database

	"seckill/internal/cli"
)

func main() {
	os.Exit(cli.Run(cli.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr))
}
