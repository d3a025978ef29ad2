// Command seckill is a flash-sale backend. One binary contains the server and the commands to migrate the schema, seed
// users, verify the invariants, reconcile, check the environment, simulate load and handle dead letters.
//
// Without flags it runs on an embedded database (SQLite in ./data) and an embedded Redis.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // for SECKILL_TIMEZONE on systems without a time zone database

	"seckill/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Restores the default: a second signal kills the process.
	context.AfterFunc(ctx, stop)
	code := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
