package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"seckill/internal/app"
	"seckill/internal/kit/redisconn"
)

// cli is the command line. All commands share the flags and variables of the configuration.
type cli struct {
	app.Config `group:"Settings of the server:"`

	ShowVersion kong.VersionFlag `name:"version" help:"Print the version of the program."`

	Serve       serveCmd       `cmd:"" default:"1" help:"Run the server (default command)."`
	Migrate     migrateCmd     `cmd:"" help:"Migrate the database schema, or show its migrations."`
	Seed        seedCmd        `cmd:"" help:"Create users for a load test and write their access tokens to a file."`
	Verify      verifyCmd      `cmd:"" help:"Check the invariants in database and Redis. Exit code 1: a violation; 2: the check was not possible."`
	Doctor      doctorCmd      `cmd:"" help:"Check configuration, database and Redis before a sale, and print what to change. Exit code 1: a check failed; 2: a server did not answer."`
	Reconcile   reconcileCmd   `cmd:"" help:"Compare the database with the gate, its buyers, the queue and the dead letters. Exit code 1: differences are left; 2: the comparison was not possible."`
	DeadLetters deadLettersCmd `cmd:"" help:"List, replay or discard dead letters: queued orders that could not be stored."`
	Admin       adminCmd       `cmd:"" help:"Enroll, list or remove admins: users with a role above buyer."`
	Room        roomCmd        `cmd:"" help:"Check the waiting room of a sale."`
	Version     versionCmd     `cmd:"" help:"Print the version of the program."`
	Rush        rushCmd        `cmd:"" help:"Load simulation: create a sale on a running server, send buyers to it and check the invariants."`
}

// rushSettings are the variables of the settings that the rush command needs. The others are accepted, because they may be set for
// a server, but its help omits them.
var rushSettings = []string{"SECKILL_ADDR", "SECKILL_ADMIN_PHONES", "SECKILL_DATA_DIR", "SECKILL_LOG_LEVEL"}

func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() != nil && ctx.Selected().Name == "rush" {
		for _, flag := range ctx.Model.Flags {
			flag.Hidden = flag.Hidden || len(flag.Envs) > 0 && !slices.Contains(rushSettings, flag.Envs[0])
		}
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

// failureCode returns the exit code for an error without a code of its own. For verify, reconcile, doctor
// and room verify it is ExitUnchecked, because their exit code 1 means that the check ran and found something.
func failureCode(command *kong.Context, err error) int {
	if parseErr, ok := errors.AsType[*kong.ParseError](err); ok {
		command = parseErr.Context
	}
	if command != nil && slices.Contains([]string{"verify", "reconcile", "doctor", "room verify"}, command.Command()) {
		return ExitUnchecked
	}
	return 1
}

var flagName = regexp.MustCompile(`--[a-z-]*[a-z]`)

// withVariables returns the text of an error with the environment variable after each flag that has one.
func withVariables(err error) string {
	variables := app.Variables()
	return flagName.ReplaceAllStringFunc(err.Error(), func(flag string) string {
		variable := "SECKILL_" + strings.ToUpper(strings.ReplaceAll(flag[2:], "-", "_"))
		if _, known := variables[variable]; known {
			return flag + " (" + variable + ")"
		}
		return flag
	})
}

// unsetEmptyVariables unsets empty environment variables, so that they select the default: compose files pass unset
// variables as empty ones.
func unsetEmptyVariables() {
	for name := range app.Variables() {
		if value, set := os.LookupEnv(name); set && value == "" {
			// Does not fail for a set variable.
			_ = os.Unsetenv(name)
		}
	}
}

type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// endSignals returns the signals that end a command in order. SIGHUP is one, as when a terminal closes, unless nohup has
// switched it off.
func endSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// UntilSignal returns a context that the first of endSignals ends. A second SIGINT or SIGTERM kills the process. SIGHUP comes
// twice when a terminal closes: from the shell, and at its end.
func UntilSignal() context.Context {
	ctx, restore := signal.NotifyContext(context.Background(), endSignals()...)
	context.AfterFunc(ctx, func() {
		signal.Ignore(syscall.SIGHUP)
		restore()
	})
	return ctx
}

// Run runs the command line and returns the exit code. The programs of tests replace parts of the program. Concurrent calls share the environment, from which Run removes empty settings, and the log of go-redis.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, replace ...func(*app.Parts)) int {
	var c cli
	unsetEmptyVariables()

	// Set by kong's --help.
	exit := -1
	parser, err := kong.New(&c,
		kong.Name("seckill"),
		kong.Description("A flash-sale backend that cannot oversell."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = max(exit, code) }),
		kong.Vars{"version": app.VersionDetails()},
		kong.Resolvers(kong.ResolverFunc(secretFile)),
		kong.UsageOnError(),
		kong.Help(printHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "seckill:", err)
		return 1
	}

	command, err := parser.Parse(args)
	if exit >= 0 {
		return exit
	}

	failure := failureCode(command, err)
	if err != nil {
		fmt.Fprintln(stderr, "seckill:", withVariables(err))
		return failure
	}

	cfg, err := c.Finish()
	if err != nil {
		fmt.Fprintf(stderr, "seckill: invalid configuration:\n%s\n", withVariables(err))
		return failure
	}

	stderr = &patientWriter{out: stderr}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: cfg.LogLevel}))
	redisconn.LogTo(log)

	env := &app.Env{
		Ctx:    ctx,
		Config: cfg,
		Out:    stdout,
		Log:    log,
	}
	for _, change := range replace {
		change(&env.Parts)
	}

	err = command.Run(env)
	if err == nil {
		return 0
	}

	fmt.Fprintln(stderr, "seckill:", withVariables(err))
	if withCode, ok := errors.AsType[*exitError](err); ok {
		return withCode.code
	}

	return failure
}
