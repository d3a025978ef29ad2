// Command seckill is the flash-sale backend: one binary that serves, migrates, seeds, verifies, reconciles, examines what
// it runs on, rushes and tends dead letters.
//
// Without flags it needs nothing but itself: SQLite in ./data and a Redis inside the process.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // SECKILL_TIMEZONE, even on systems without time zones

	"seckill/internal/app"
	"seckill/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills
	code := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, app.Tuning{})
	stop()
	os.Exit(code)
}
