// Command stack runs a command with a private MariaDB and Redis, whose addresses are in SECKILL_MYSQL_DSN and
// SECKILL_REDIS_ADDRS of the command's environment: go run ./loadtest/stack loadtest/run.sh
//
// As in docker-compose.yml, a commit is on disk before MariaDB acknowledges it, and Redis keeps an append-only file.
// Both servers stop when the command ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"seckill/test/env/servers"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: stack COMMAND [ARGUMENT...]")
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()

	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		os.Exit(exit.ExitCode())
	default:
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	db, err := servers.RunMariaDB(ctx, "--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=512M")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Stop()) }()

	dsn, err := db.CreateDatabase(ctx, "seckill")
	if err != nil {
		return err
	}

	rds, err := servers.RunRedis(ctx, "--appendonly", "yes")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rds.Stop()) }()

	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // the command is the caller's
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "SECKILL_MYSQL_DSN="+dsn, "SECKILL_REDIS_ADDRS="+rds.Addr)

	return cmd.Run()
}
