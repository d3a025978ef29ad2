// Command torture runs fault campaigns: buyers, payments and admins use several servers of seckill while servers,
// database, Redis and connections fail, about once a second. During the campaign and at its end, the promises I1 to I6
// are checked in the database and in what the buyers were answered.
//
// A campaign has its own MariaDB, its own Redis with a replica and three Sentinels, and a proxy in front of each of them
// and of each server. The seed fixes the faults, their targets and their durations, the purchases and what becomes of
// each order. It does not fix how processes and connections interleave.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"seckill/internal/app"
	"seckill/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // restores the default: a second signal kills the process

	var code int
	if isSeckill(os.Args) {
		code = runSeckill(ctx, os.Args)
	} else {
		code = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}

	stop()
	os.Exit(code)
}

// flags are the command line.
type flags struct {
	Orders   int    `default:"10000" help:"Units on sale (${default}). There are 40 % more buyers, because some orders are cancelled."`
	Lane     string `default:"lock" enum:"lock,batch,queue" help:"Order mode: ${enum} (${default})."`
	Redis    string `default:"sentinel" enum:"sentinel,cluster" help:"Redis: a master with a replica and 3 Sentinels, or a cluster of 3 masters with a replica each: ${enum} (${default})."`
	Database string `default:"mariadb" enum:"mariadb,galera" help:"Database: one MariaDB, or a Galera cluster of 3: ${enum} (${default})."`
	Seed     uint64 `default:"1" help:"Selects the faults and what the buyers do (${default})."`
	Servers  int    `default:"3" help:"Number of servers (${default})."`
	Rate     int    `default:"200" help:"Purchases that begin in a second (${default})."`
	JSON     string `name:"json" placeholder:"FILE" help:"Write the report with every fault to this file."`
}

// Exit codes of a campaign.
const (
	exitViolation = 1 // a promise was broken
	exitUnchecked = 2 // the campaign was not possible, or a fault was not injected
)

// run runs the campaign of a command line, prints its report and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var f flags
	exit := -1 // set by kong's --help
	parser, err := kong.New(&f,
		kong.Name("torture"),
		kong.Description("Fault campaign: start private servers, a database and a Redis, let them fail once a second under buyers, "+
			"and check the promises. Exit code 1: a promise was broken; 2: the campaign was not possible."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = max(exit, code) }),
	)
	if err != nil {
		fmt.Fprintln(stderr, "torture:", err)
		return exitUnchecked
	}

	_, err = parser.Parse(args)
	if exit >= 0 {
		return exit
	}
	if err != nil {
		fmt.Fprintln(stderr, "torture:", err)
		return exitUnchecked
	}

	broken, err := f.campaign(ctx, stdout)
	for _, err := range []error{broken, err} {
		if err != nil {
			fmt.Fprintln(stderr, "torture:", err)
		}
	}
	switch {
	case broken != nil && !errors.Is(broken, ErrNotInjected):
		return exitViolation
	case broken != nil || err != nil:
		return exitUnchecked
	}
	return 0
}

// campaign runs a campaign and prints its report. broken is what the report found; err is why there may be none.
func (f flags) campaign(ctx context.Context, out io.Writer) (broken, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cfg := Config{
		Program: program, Out: out, Lane: f.Lane, Redis: f.Redis, Database: f.Database,
		Servers: f.Servers, Orders: f.Orders, Rate: f.Rate, Seed: f.Seed,
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}

	report, err := Run(ctx, cfg)
	if report == nil {
		return nil, err
	}
	fmt.Fprintln(out)
	err = errors.Join(err, report.WriteMarkdown(out))
	if f.JSON != "" {
		err = errors.Join(err, writeJSON(f.JSON, report))
	}
	return report.Err(), err
}

func writeJSON(path string, report *Report) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(report.WriteJSON(f), f.Close())
}

// asSeckill is the first argument with which this program, or its test, is seckill. The second one is the difference of
// its clock from that of the machine. The arguments of seckill follow.
const asSeckill = "as-seckill"

// seckillArgs returns the arguments of this program for a seckill with these arguments.
func seckillArgs(clock time.Duration, args ...string) []string {
	return append([]string{asSeckill, clock.String()}, args...)
}

// isSeckill reports whether a command line is of [seckillArgs].
func isSeckill(line []string) bool {
	return len(line) > 2 && line[1] == asSeckill
}

// runSeckill runs the seckill of a command line and returns its exit code.
func runSeckill(ctx context.Context, line []string) int {
	clock, err := time.ParseDuration(line[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return exitUnchecked
	}
	now := func() time.Time { return time.Now().Add(clock) }
	return cli.Run(ctx, line[3:], os.Stdout, os.Stderr, func(p *app.Parts) { p.Now = now })
}
