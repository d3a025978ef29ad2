// Command torture runs fault campaigns: buyers, payments and admins use several servers of seckill while servers,
// database, Redis and connections fail, about once a second. During the campaign I1 to I3 are checked in the database, at its
// end I1 to I6, also in what the buyers were answered.
//
// A campaign has its own MariaDB, its own Redis with a replica and three Sentinels, and a proxy in front of each of them
// and of each server. The seed fixes the faults, their targets and their durations, the purchases and what becomes of
// each order. It does not fix how processes and connections interleave.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"seckill/internal/auth"
	"seckill/internal/cli"
	"seckill/internal/ops/rush"
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
	helped := false

	parser, err := kong.New(&f,
		kong.Name("torture"),
		kong.Description("Fault campaign: start private servers, a database and a Redis, let them fail once a second under buyers, "+
			"and check the promises. Exit code 1: a promise was broken; 2: the campaign was not possible."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
	)
	if err == nil {
		_, err = parser.Parse(args)
	}

	if err == nil && !helped {
		err = f.campaign(ctx, stdout)
	}

	if err == nil || helped {
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
	if f.JSON == "" {
		return err
	}

	text, encodeErr := json.MarshalIndent(report, "", "  ")
	return errors.Join(err, encodeErr, os.WriteFile(f.JSON, append(text, '\n'), 0o644)) //nolint:gosec // a report for others
}

// Config are the parameters of a campaign. The report has most of them.
type Config struct {
	Units    int    `name:"orders" json:"-" default:"10000" help:"Units on sale (${default}). There are 40 % more buyers, because some orders are cancelled."`
	Lane     string `json:"lane" default:"lock" enum:"lock,batch,queue" help:"Order mode: ${enum} (${default})."`
	Redis    string `json:"redis" default:"sentinel" enum:"sentinel,cluster" help:"Redis: a master with a replica and 3 Sentinels, or a cluster of 3 masters with a replica each: ${enum} (${default})."`
	Database string `json:"database" default:"mariadb" enum:"mariadb,galera" help:"Database: one MariaDB, or a Galera cluster of 3: ${enum} (${default})."`
	Seed     uint64 `json:"seed" default:"1" help:"Selects the faults and what the buyers do (${default})."`
	Servers  int    `json:"servers" default:"3" help:"Number of servers (${default})."`
	Rate     int    `json:"-" default:"200" help:"Purchases that begin in a second (${default})."`
}

// Systems of a campaign that are not the default.
const (
	redisCluster = "cluster"
	galera       = "galera"
)

// Check returns an error if a parameter is out of range.
func (c Config) Check() error {
	if c.Servers < 1 || c.Servers > 16 || c.Units < 30 || c.Units > 5_000_000 || c.Rate < 1 || c.Rate > 100_000 {
		return errors.New("--servers must be between 1 and 16, --orders between 30 and 5000000, --rate between 1 and 100000")
	}

	return nil
}

const (
	// faultInterval is the time from one fault to the next.
	faultInterval = time.Second
	// checkInterval is the pause between two checks during the campaign.
	checkInterval = 2 * time.Second
	// recovery is the time after the last fault within which everything must work and every free unit be for sale (I5). Most
	// of it is reserve for a busy machine.
	recovery = 3 * time.Minute
)

// Run runs a campaign and prints its progress. The report has all violations; an error means that the campaign could not
// be run.
func Run(ctx context.Context, cfg Config, out io.Writer) (report *Report, err error) {
	s, err := startSystem(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("start the servers: %w", err)
	}
	defer func() { err = errors.Join(err, s.stop()) }()

	c, err := newCampaign(ctx, cfg, s)
	if err != nil {
		return nil, fmt.Errorf("prepare the campaign: %w", err)
	}
	defer c.close()

	fmt.Fprintf(out, "%d servers in lane %s, %d units for %d buyers, seed %d, Redis %s, %s, database %s\n",
		cfg.Servers, cfg.Lane, cfg.Units, len(c.purchases), cfg.Seed, cfg.Redis, cfg.Database, s.database.dsn)

	elapsed := c.underFaults(ctx, out)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}

	fmt.Fprintf(out, "%.0f s: the last fault has ended, %d orders; final checks\n", elapsed.Seconds(), c.ledger.orders())
	c.finish(ctx)

	return c.report(elapsed), nil
}

// campaign are the buyers and admins of a Run with what they were answered.
type campaign struct {
	cfg    Config
	system *system
	// One per server.
	clients []*rush.Client
	admin   auth.Identity
	// Each with all clients and its own buyers.
	sales     []*rush.Buyers
	purchases []purchase
	ledger    *ledger
	// Successful checks during the campaign.
	checks int

	// After the campaign: when the last buyer came, since its begin, and its faults.
	lastCame time.Duration
	faults   []*Fault
}

// numberOfSales is the number of sales that run at once.
const numberOfSales = 3

// purchase is a buyer of a sale with what becomes of the order.
type purchase struct {
	// Index in campaign.sales.
	sale int
	// Index in the tokens of the sale.
	buyer int
	user  int64
	fate  fate
}

func (p purchase) key(action string) string { return fmt.Sprintf("%s-%d", action, p.user) }

func newCampaign(ctx context.Context, cfg Config, s *system) (*campaign, error) {
	c := &campaign{cfg: cfg, system: s}

	for _, addr := range s.addrs() {
		client, err := rush.NewClient("http://"+addr, parallel)
		if err != nil {
			return nil, err
		}
		c.clients = append(c.clients, client)
	}

	buyers, err := s.seed(ctx, cfg.Units+cfg.Units*2/5)
	if err != nil {
		return nil, err
	}

	c.admin, err = s.enrollAdmin(ctx, c.clients[0])
	if err != nil {
		return nil, fmt.Errorf("log in as admin: %w", err)
	}

	for i := range numberOfSales {
		if err := c.addSale(ctx, i); err != nil {
			return nil, fmt.Errorf("create a sale: %w", err)
		}
	}

	nextFate := drawFates(cfg.Seed)
	for i, b := range buyers {
		sale := c.sales[i%numberOfSales]
		c.purchases = append(c.purchases, purchase{
			sale:  i % numberOfSales,
			buyer: len(sale.Tokens),
			user:  b.ID,
			fate:  nextFate(),
		})
		sale.Tokens = append(sale.Tokens, b.Token)
	}

	c.ledger = newLedger(len(c.purchases))
	return c, nil
}

// addSale publishes a sale with its share of the units. On a cluster of Redis the first one has segments. A sale begins
// and ends a day away, because a server's clock may be wrong.
func (c *campaign) addSale(ctx context.Context, i int) error {
	now := time.Now().UTC()
	stock := int64(c.cfg.Units*(i+1)/numberOfSales - c.cfg.Units*i/numberOfSales)
	segments := 1
	if c.cfg.Redis == redisCluster && i == 0 {
		segments = 8
	}

	var v rush.Voucher
	err := c.clients[0].Send(ctx, http.MethodPost, "/admin/vouchers", c.adminToken(), "", map[string]any{
		"shop_id":      "1",
		"title":        fmt.Sprint("Torture ", i+1),
		"pay_value":    100,
		"actual_value": 200,
		"stock":        stock,
		"segments":     segments,
		"begin_at":     now.Add(-24 * time.Hour),
		"end_at":       now.Add(24 * time.Hour),
	}, &v)
	if err != nil {
		return err
	}

	c.sales = append(c.sales, &rush.Buyers{
		Clients:   c.clients,
		VoucherID: v.ID,
		Stock:     stock,
	})

	return nil
}

// adminToken returns an access token of the admin. Servers with a clock that is wrong by maxClockOffset accept it: tokens of
// admins are valid for auth.AccessTTL at most, on every clock.
func (c *campaign) adminToken() string {
	token, err := c.system.signer.Access(c.admin, auth.AccessTTL/2)
	if err != nil {
		// The key has signed the buyers' tokens.
		panic(err)
	}

	return token
}

func (c *campaign) close() {
	for _, client := range c.clients {
		client.Close()
	}
}

func (c *campaign) underFaults(ctx context.Context, out io.Writer) time.Duration {
	shopping, endShopping := context.WithCancel(ctx)
	defer endShopping()

	injector := newInjector(c.system, c.cfg, c.ledger.began)
	tasks := []func(context.Context){
		injector.run,
		c.administrate,
		c.checkRepeatedly,
		c.printProgress(out, injector),
	}

	var background sync.WaitGroup
	for _, task := range tasks {
		background.Go(func() { task(shopping) })
	}

	c.shop(ctx)
	endShopping()
	background.Wait()

	c.faults = injector.log
	slices.SortFunc(c.faults, func(a, b *Fault) int { return a.Number - b.Number })

	return time.Since(c.ledger.began)
}

func (c *campaign) finish(ctx context.Context) {
	healing, stop := context.WithTimeout(ctx, recovery)
	err := c.system.heal(healing)
	stop()

	if err != nil {
		c.ledger.violate("I5", "the system does not work %s after the last fault: %v", recovery, err)
		return
	}

	buying, stop := context.WithTimeout(ctx, recovery)
	c.buyTheRest(buying)
	stop()

	c.checkFinally(ctx)
}
