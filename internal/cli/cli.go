package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"seckill/internal/app"
	"slices"

	"github.com/alecthomas/kong"
)

// cli is the command line. Configuration comes first, so that flags and environment are the same everywhere.
type cli struct {
	app.Config

	Serve       serveCmd       `cmd:"" default:"1" help:"Serve the API (the default)."`
	Migrate     migrateCmd     `cmd:"" help:"Change or show the database schema."`
	Seed        seedCmd        `cmd:"" help:"Make users for a load test and write their access tokens."`
	Verify      verifyCmd      `cmd:"" help:"Check the invariants against database and Redis; exits 1 on a violation, 2 when it could not check."`
	Doctor      doctorCmd      `cmd:"" help:"Check configuration, database, Redis and machine before a sale, and say what to change; exits 1 if something fails, 2 when something did not answer."`
	Reconcile   reconcileCmd   `cmd:"" help:"Compare the database with the gate, the buyers, the queue and the dead letters; exits 1 if something is left to do, 2 when it could not check."`
	DeadLetters deadLettersCmd `cmd:"" help:"Look at the admissions that the lane queue could not make orders, and decide about them."`
	Rush        rushCmd        `cmd:"" help:"Create a sale on a running server and send buyers to it."`
}

// failureCode is the exit code for whatever stops a command. For verify, 1 means that an invariant is broken, for
// reconcile that something is left to do, for doctor that a check failed, and nothing else may.
func failureCode(command *kong.Context, err error) int {
	var bad *kong.ParseError
	if errors.As(err, &bad) {
		command = bad.Context
	}
	if command != nil && slices.Contains([]string{"verify", "reconcile", "doctor"}, command.Command()) {
		return ExitUnchecked
	}
	return 1
}

// forgetEmptySettings makes an empty variable the same as one that is not set: compose files pass them on empty.
func forgetEmptySettings() {
	fields := reflect.TypeFor[app.Config]()
	for i := range fields.NumField() {
		name := fields.Field(i).Tag.Get("env")
		if value, set := os.LookupEnv(name); set && value == "" {
			_ = os.Unsetenv(name) // cannot fail for a name that is set
		}
	}
}

// exitError ends the program with a code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// Run runs the command line and returns the exit code. Tests replace parts of the program by t; its zero value replaces
// nothing.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, t app.Tuning) int {
	var c cli
	forgetEmptySettings()
	exit := -1 // kong's --help asks to exit
	parser, err := kong.New(&c,
		kong.Name("seckill"), kong.Description("A flash-sale backend that cannot oversell."),
		kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = max(exit, code) }),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "seckill:", err)
		return 1
	}
	command, err := parser.Parse(args)
	if exit >= 0 {
		return exit
	}
	failed := failureCode(command, err)
	if err != nil {
		fmt.Fprintln(stderr, "seckill:", err, "\nTry: seckill --help")
		return failed
	}
	cfg, err := c.Finish()
	if err != nil {
		fmt.Fprintf(stderr, "seckill: the configuration is not usable:\n%v\n", err)
		return failed
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: cfg.LogLevel}))
	app.LogRedis(log)
	err = command.Run(&app.Env{Ctx: ctx, Config: cfg, Out: stdout, Log: log, Tuning: t})
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "seckill:", err)
	var withCode *exitError
	if errors.As(err, &withCode) {
		return withCode.code
	}
	return failed
}
