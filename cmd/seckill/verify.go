package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/service"
)

type verifyCmd struct{}

// Exit codes of verify.
const (
	exitViolation = 1
	exitUnchecked = 2
)

// Run checks the invariants of a live or resting system and prints a row per sale.
func (verifyCmd) Run(e *env) error {
	books, err := readBooks(e)
	if err != nil {
		return &exitError{exitUnchecked, fmt.Errorf("could not check the database: %w", err)}
	}
	var found []string
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "voucher\tunits\tadded\tleft\tactive orders\tI1\tI2\tI3\tI5\t")
	for _, b := range books {
		broken := map[string]bool{}
		for _, v := range b.Check() {
			broken[v.Invariant] = true
			found = append(found, fmt.Sprintf("voucher %d: %s: %s", b.VoucherID, v.Invariant, v.Detail))
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t", b.VoucherID, b.InitialStock, b.Additions, b.Stock, b.Active)
		for _, invariant := range []string{"I1", "I2", "I3", "I5"} {
			fmt.Fprintf(w, "%s\t", map[bool]string{false: "ok", true: "BROKEN"}[broken[invariant]])
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	stuck, checked, err := stuckLocks(e)
	if err != nil {
		return &exitError{exitUnchecked, fmt.Errorf("could not check Redis: %w", err)}
	}
	for _, key := range stuck {
		found = append(found, "Redis: I5: "+key+" has no expiry, its user can never buy again")
	}
	fmt.Fprintln(e.out, checked)
	if len(found) > 0 {
		return &exitError{exitViolation, fmt.Errorf("%d violations:\n  %s", len(found), strings.Join(found, "\n  "))}
	}
	fmt.Fprintf(e.out, "%d sales checked: every invariant holds\n", len(books))
	return nil
}

func readBooks(e *env) (books []service.Books, err error) {
	if e.cfg.Embedded() { // opening would make what is not there
		if _, err := os.Stat(filepath.Join(e.cfg.DataDir, databaseFile)); err != nil {
			return nil, err
		}
	}
	store, err := openStore(e.cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return store.Books(e.ctx)
}

// stuckLocks finds user locks without an expiry. The order lane keeps nothing else in Redis that could hold a
// buyer or a unit back: stock and buyers are in the database alone.
func stuckLocks(e *env) (stuck []string, checked string, err error) {
	nodes, checked, err := verifyNodes(e.cfg)
	if err != nil || len(nodes) == 0 {
		return nil, checked, err
	}
	locks := 0
	for _, node := range nodes {
		defer node.Close()
		check := func(ctx context.Context, rdb redis.UniversalClient) error {
			keys := rdb.Scan(ctx, 0, lock.RedLockKey(orderLock+"*"), 1000).Iterator()
			for keys.Next(ctx) {
				locks++
				ttl, err := rdb.TTL(ctx, keys.Val()).Result()
				if err != nil {
					return err
				}
				if ttl == -1 { // go-redis passes Redis's "no expiry" on as -1 ns
					stuck = append(stuck, keys.Val())
				}
			}
			return keys.Err()
		}
		if cluster, ok := node.(*redis.ClusterClient); ok {
			err = cluster.ForEachMaster(e.ctx, func(ctx context.Context, c *redis.Client) error { return check(ctx, c) })
		} else {
			err = check(e.ctx, node)
		}
		if err != nil {
			return nil, "", err
		}
	}
	return stuck, fmt.Sprintf("%s: %d user locks held, %d without an expiry", checked, locks, len(stuck)), nil
}

// verifyNodes connects to the Redis servers that hold the locks; none if an embedded server is not running.
func verifyNodes(cfg Config) ([]redis.UniversalClient, string, error) {
	if len(cfg.LockNodes) > 0 {
		return lockNodes(cfg, nil), "lock nodes", nil
	}
	if !cfg.EmbeddedRedis() {
		return []redis.UniversalClient{openRedis(cfg.RedisPassword, cfg.RedisAddrs...)}, "Redis", nil
	}
	info, err := runningRedis(cfg.DataDir)
	switch {
	case err != nil:
		return nil, "", err
	case info == nil:
		return nil, "Redis: the embedded server is not running and holds nothing", nil
	}
	return []redis.UniversalClient{openRedis(info.Password, info.Addr)}, "embedded Redis", nil
}
