package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"seckill/internal/auth"
	"seckill/internal/ops/rush"
)

// Config are the parameters of a campaign.
type Config struct {
	Program string    // path of the seckill binary
	Out     io.Writer // receives the progress
	Lane    string    // of the orders

	Redis    string // Sentinel or Cluster
	Database string // MariaDB or Galera
	Servers  int
	Orders   int    // units on sale. There are 40 % more buyers, because some orders are cancelled.
	Rate     int    // purchases that begin in a second
	Seed     uint64 // of the faults and of the buyers
}

// The systems of a campaign.
const (
	Sentinel = "sentinel" // a Redis master with a replica and three Sentinels
	Cluster  = "cluster"  // a Redis Cluster of three masters with a replica each
	MariaDB  = "mariadb"  // one MariaDB
	Galera   = "galera"   // a cluster of three MariaDB nodes, of which one is written to
)

// Check returns an error if a parameter is out of range.
func (c Config) Check() error {
	if c.Servers < 1 || c.Servers > 16 || c.Orders < 30 || c.Orders > 5_000_000 || c.Rate < 1 || c.Rate > 100_000 {
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

// Run runs a campaign. The report has all violations; an error means that the campaign could not be run.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
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
	fmt.Fprintf(cfg.Out, "%d servers in lane %s, %d units for %d buyers, seed %d, Redis %s, %s, database %s\n",
		cfg.Servers, cfg.Lane, cfg.Orders, len(c.purchases), cfg.Seed, cfg.Redis, cfg.Database, s.database.dsn)

	began := c.ledger.began
	shopping, endShopping := context.WithCancel(ctx)
	injector := newInjector(s, cfg, began)
	background := []func(context.Context){injector.run, c.administrate, c.checkRepeatedly, c.printProgress(cfg.Out, injector)}
	done := make(chan struct{})
	for _, f := range background {
		go func() { f(shopping); done <- struct{}{} }()
	}
	c.shop(ctx)
	endShopping()
	for range background {
		<-done
	}
	elapsed := time.Since(began)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	fmt.Fprintf(cfg.Out, "%.0f s: the last fault has ended, %d orders; final checks\n", elapsed.Seconds(), c.ledger.orders())
	c.faults = injector.log
	slices.SortFunc(c.faults, func(a, b *Fault) int { return a.Number - b.Number })
	c.finish(ctx)
	return c.report(elapsed), nil
}

// campaign are the buyers and admins of a Run with what they were answered.
type campaign struct {
	cfg       Config
	system    *system
	clients   []*rush.Client // one per server
	admin     auth.Identity
	sales     []*rush.Buyers // each with all clients and its own buyers
	purchases []purchase
	ledger    *ledger
	checks    int      // successful checks during the campaign
	faults    []*Fault // after the campaign
}

// numberOfSales is the number of sales that run at once.
const numberOfSales = 3

// purchase is a buyer of a sale with what becomes of the order.
type purchase struct {
	sale, buyer int // indexes in campaign.sales and its tokens
	user        int64
	fate        fate
}

// key returns the Idempotency-Key of an action of the buyer.
func (p purchase) key(action string) string { return fmt.Sprintf("%s-%d", action, p.user) }

// newCampaign creates the buyers and the sales.
func newCampaign(ctx context.Context, cfg Config, s *system) (*campaign, error) {
	c := &campaign{cfg: cfg, system: s}
	for _, addr := range s.addrs() {
		client, err := rush.NewClient("http://"+addr, parallel)
		if err != nil {
			return nil, err
		}
		c.clients = append(c.clients, client)
	}
	users, tokens, err := s.seed(ctx, cfg.Orders+cfg.Orders*2/5)
	if err != nil {
		return nil, err
	}
	if c.admin, err = s.enrollAdmin(ctx, c.clients[0]); err != nil {
		return nil, fmt.Errorf("log in as admin: %w", err)
	}
	for i := range numberOfSales {
		stock := int64(cfg.Orders*(i+1)/numberOfSales - cfg.Orders*i/numberOfSales)
		now := time.Now().UTC()
		var v rush.Voucher
		segments := 1
		if cfg.Redis == Cluster && i == 0 {
			segments = 8
		}
		err := c.clients[0].Send(ctx, http.MethodPost, "/admin/vouchers", c.adminToken(), "", map[string]any{
			"shop_id": "1", "title": fmt.Sprint("Torture ", i+1), "pay_value": 100, "actual_value": 200, "stock": stock, "segments": segments,
			"begin_at": now.Add(-24 * time.Hour), "end_at": now.Add(24 * time.Hour), // a server's clock may be wrong
		}, &v)
		if err != nil {
			return nil, fmt.Errorf("create a sale: %w", err)
		}
		c.sales = append(c.sales, &rush.Buyers{Clients: c.clients, VoucherID: v.ID, Stock: stock})
	}
	fates := newFates(cfg.Seed)
	for i, token := range tokens {
		sale := c.sales[i%numberOfSales]
		c.purchases = append(c.purchases, purchase{i % numberOfSales, len(sale.Tokens), users[i], fates.next()})
		sale.Tokens = append(sale.Tokens, token)
	}
	c.ledger = newLedger(len(c.purchases))
	return c, nil
}

// adminToken returns an access token of the admin. Servers with a clock that is wrong by maxClockOffset accept it: tokens of
// admins are valid for auth.AccessTTL at most, on every clock.
func (c *campaign) adminToken() string {
	token, err := c.system.signer.Access(c.admin, auth.AccessTTL/2)
	if err != nil {
		panic(err) // the key has signed the buyers' tokens
	}
	return token
}

func (c *campaign) close() {
	for _, client := range c.clients {
		client.Close()
	}
}

// finish brings the system back to work, lets every buyer without an order try again, and makes the final checks.
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
