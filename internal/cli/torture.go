package cli

import (
	"errors"
	"fmt"
	"os"

	"seckill/internal/app"
	"seckill/internal/torture"
)

type tortureCmd struct {
	Orders   int    `default:"10000" help:"Units on sale (${default}). There are 40 % more buyers, because some orders are cancelled."`
	Lane     string `default:"lock" enum:"lock,batch,queue" help:"Order mode: ${enum} (${default})."`
	Redis    string `default:"sentinel" enum:"sentinel,cluster" help:"Redis: a master with a replica and 3 Sentinels, or a cluster of 3 masters with a replica each: ${enum} (${default})."`
	Database string `default:"mariadb" enum:"mariadb,galera" help:"Database: one MariaDB, or a Galera cluster of 3: ${enum} (${default})."`
	Seed     uint64 `default:"1" help:"Selects the faults and what the buyers do (${default})."`
	Servers  int    `default:"3" help:"Number of servers (${default})."`
	Rate     int    `default:"200" help:"Purchases that begin in a second (${default})."`
	JSON     string `name:"json" placeholder:"FILE" help:"Write the report with every fault to this file."`
}

// Run runs a fault campaign on its own servers and prints the report.
func (t tortureCmd) Run(e *app.Env) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cfg := torture.Config{
		Program: program, Out: e.Out, Lane: t.Lane, Redis: t.Redis, Database: t.Database, Servers: t.Servers, Orders: t.Orders, Rate: t.Rate, Seed: t.Seed,
	}
	if err := cfg.Check(); err != nil {
		return &exitError{ExitUnchecked, err}
	}
	report, err := torture.Run(e.Ctx, cfg)
	if report == nil {
		return &exitError{ExitUnchecked, err}
	}
	fmt.Fprintln(e.Out)
	err = errors.Join(err, report.WriteMarkdown(e.Out))
	if t.JSON != "" {
		err = errors.Join(err, writeJSON(t.JSON, report))
	}
	switch broken := report.Err(); {
	case errors.Is(broken, torture.ErrNotInjected):
		return &exitError{ExitUnchecked, errors.Join(broken, err)}
	case broken != nil:
		return &exitError{ExitViolation, errors.Join(broken, err)}
	case err != nil:
		return &exitError{ExitUnchecked, err}
	}
	return nil
}

func writeJSON(path string, report *torture.Report) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(report.WriteJSON(f), f.Close())
}
