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

	"github.com/alecthomas/kong"

	"seckill/internal/cli"
	"seckill/test/e2e/rig"
)

func main() {
	rig.Prepare()

	os.Exit(run(cli.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr))
}

// flags are the command line.
type flags struct {
	Config

	JSON string `name:"json" placeholder:"FILE" help:"Write the report with every fault to this file."`
}

// Exit codes of a campaign.
const (
	// A promise was broken.
	exitViolation = 1
	// The campaign was not possible, or a fault was not injected.
	exitUnchecked = 2
)

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var f flags

	// Set by kong's --help.
	exit := -1

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

	err = f.campaign(ctx, stdout)
	if err == nil {
		return 0
	}

	fmt.Fprintln(stderr, "torture:", err)
	if errors.Is(err, ErrBroken) {
		return exitViolation
	}

	return exitUnchecked
}

func (f flags) campaign(ctx context.Context, out io.Writer) error {
	if err := f.Check(); err != nil {
		return err
	}

	report, err := Run(ctx, f.Config, out)
	if report == nil {
		return err
	}

	fmt.Fprintln(out)
	err = errors.Join(report.Err(), err, report.WriteMarkdown(out))
	if f.JSON != "" {
		err = errors.Join(err, writeJSON(f.JSON, report))
	}

	return err
}

func writeJSON(path string, report *Report) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}

	return errors.Join(report.WriteJSON(f), f.Close())
}
