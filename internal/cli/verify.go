package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/redis/go-redis/v9"

	"seckill/internal/app"
	"seckill/internal/lock"
	"seckill/internal/repo"
	"seckill/internal/service"
)

type verifyCmd struct{}

// Exit codes of verify.
const (
	ExitViolation = 1
	ExitUnchecked = 2
)

// Run checks the invariants of a live or resting system and prints a row per sale.
func (verifyCmd) Run(e *app.Env) (err error) {
	store, books, err := readBooks(e)
	if err != nil {
		return &exitError{ExitUnchecked, fmt.Errorf("could not check the database: %w", err)}
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	r := report{broken: map[int64]map[string]bool{}}
	for _, b := range books {
		for _, v := range named(e.Ctx, store, b) {
			r.violation(b.VoucherID, v.Invariant, v.Detail+orderList(v.Orders.Orders, v.Orders.Count))
		}
	}
	redisErr := checkRedis(e, store, books, &r)
	if err := r.print(e.Out, books); err != nil {
		return err
	}
	if redisErr != nil {
		return &exitError{ExitUnchecked, fmt.Errorf("could not check Redis: %w", redisErr)}
	}
	if len(r.violations) > 0 {
		return &exitError{ExitViolation, fmt.Errorf("%d violations:\n  %s", len(r.violations), strings.Join(r.violations, "\n  "))}
	}
	fmt.Fprintf(e.Out, "%d sales checked: every invariant holds\n", len(books))
	return nil
}

// report is what verify has found.
type report struct {
	violations []string
	broken     map[int64]map[string]bool // invariants, by voucher
	gates      map[int64]gateView        // of vouchers whose gate is loaded
	lines      []string                  // about Redis
}

func (r *report) violation(voucherID int64, invariant, detail string) {
	if r.broken[voucherID] == nil {
		r.broken[voucherID] = map[string]bool{}
	}
	r.broken[voucherID][invariant] = true
	r.violations = append(r.violations, fmt.Sprintf("voucher %d: %s: %s", voucherID, invariant, detail))
}

func (r *report) note(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// print writes the table and what there is to say about Redis.
func (r *report) print(out io.Writer, books []service.Books) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "voucher\tunits\tadded\tleft\tactive orders\tin the gate\tqueued\tI1\tI2\tI3\tI5\t")
	for _, b := range books {
		units, queued := "-", "-"
		if g, loaded := r.gates[b.VoucherID]; loaded {
			units, queued = decimal(g.level.Stock), decimal(g.level.Queued)
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%s\t%s\t", b.VoucherID, b.InitialStock, b.Additions, b.Stock, b.Active, units, queued)
		for _, invariant := range []string{"I1", "I2", "I3", "I5"} {
			fmt.Fprintf(w, "%s\t", map[bool]string{false: "ok", true: "BROKEN"}[r.broken[b.VoucherID][invariant]])
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, line := range r.lines {
		fmt.Fprintln(out, line)
	}
	return nil
}

// maxNamedOrders is how many active orders are read to name those that break the books of a sale.
const maxNamedOrders = 2_000_000

// named returns what is wrong with the books, with the orders if they can be told.
func named(ctx context.Context, store *repo.Store, b service.Books) []service.Violation {
	violations := b.Check()
	if len(violations) == 0 {
		return nil
	}
	facts, err := store.SaleFacts(ctx, b.VoucherID, nil, maxNamedOrders, service.OverdueSince{})
	if err != nil {
		return violations
	}
	if again := facts.Check(); len(again) >= len(violations) {
		return again
	}
	return violations
}

// readBooks opens the database, which the caller closes, and reads its accounts.
func readBooks(e *app.Env) (*repo.Store, []service.Books, error) {
	store, err := existingStore(e)
	if err != nil {
		return nil, nil, err
	}
	books, err := store.Books(e.Ctx)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, books, nil
}

// checkRedis looks for what Redis keeps from buyers: by a user's lock without an expiry, or by a gate that is off.
func checkRedis(e *app.Env, store *repo.Store, books []service.Books, r *report) error {
	rdb, err := app.SharedRedis(e.Config)
	if err != nil {
		return err
	}
	if rdb != nil {
		defer rdb.Close()
	} else {
		r.note("Redis: the embedded server is not running and holds nothing")
	}
	if err := checkLocks(e, rdb, r); err != nil || rdb == nil {
		return err
	}
	return checkGates(e, rdb, store, books, r)
}

// checkLocks finds user locks without an expiry, on the lock nodes or in rdb, which is nil if no embedded server runs.
func checkLocks(e *app.Env, rdb redis.UniversalClient, r *report) error {
	if rdb == nil && len(e.Config.LockNodes) == 0 {
		return nil
	}
	var (
		mu          sync.Mutex // the masters of a cluster are asked at the same time
		held, stuck int
	)
	check := func(ctx context.Context, node redis.UniversalClient) error {
		keys := node.Scan(ctx, 0, lock.RedLockKey(app.OrderLock+"*"), 1000).Iterator()
		for keys.Next(ctx) {
			ttl, err := node.TTL(ctx, keys.Val()).Result()
			if err != nil {
				return err
			}
			mu.Lock()
			held++
			if ttl == -1 { // go-redis passes Redis's "no expiry" on as -1 ns
				stuck++
				r.violations = append(r.violations, "Redis: I5: "+keys.Val()+" has no expiry, its user can never buy again")
			}
			mu.Unlock()
		}
		return keys.Err()
	}
	for _, node := range app.LockNodes(e.Config, rdb) {
		if node != rdb {
			defer node.Close()
		}
		var err error
		if cluster, ok := node.(*redis.ClusterClient); ok {
			err = cluster.ForEachMaster(e.Ctx, func(ctx context.Context, c *redis.Client) error { return check(ctx, c) })
		} else {
			err = check(e.Ctx, node)
		}
		if err != nil {
			return err
		}
	}
	r.note("user locks: %d held, %d without an expiry", held, stuck)
	return nil
}
