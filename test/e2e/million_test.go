package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/sale/admission"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

const million = 1_000_000

// unusedOrderID is an order id of some hours ago that was never issued.
const unusedOrderID = "3368803458027454465"

// TestSaleWithMillionOrders covers lane queue: buyers are admitted again after Redis lost all data, reconcile restores a
// lost unit while buyers are admitted, and verify completes. It does not run in parallel to others, because its
// checks need seconds of both processors.
func TestSaleWithMillionOrders(t *testing.T) {
	env.Full(t)
	s := rig.WithoutBackgroundRepair(rig.RealStack(t).OwnDatabase(t, "--innodb-buffer-pool-size=512M",
		"--loose-innodb-log-file-size=256M", "--loose-innodb-redo-log-capacity=256M"))
	p := s.Serve(t)
	p.MayRefuse() // while a million orders are loaded
	tokens := s.Tokens(t, 2000)
	buy := func() rig.Answer {
		token := tokens[0]
		tokens = tokens[1:]
		return p.Once(t, rig.Purchase(s.Setting("SALE"), token))
	}
	const left = 5000
	s = s.With("SALE=" + p.Sale(t, million+left))
	sellMillion(t, s, s.Setting("SALE"))

	// Loading a million orders takes 4 s, and ten times as long on a busy machine.
	untilAdmitted := func(when string) {
		start := time.Now()
		for a := buy(); a.Status != http.StatusAccepted; a = buy() {
			require.Equal(t, http.StatusServiceUnavailable, a.Status, a.Body)
			require.NotEmpty(t, a.Header.Get("Retry-After"))
		}
		t.Log("admitted", when, "after", time.Since(start))
	}
	untilAdmitted("first")
	require.NoError(t, s.Flush())
	untilAdmitted("after FLUSHALL")

	rdb := s.Client(t)
	s.ChangeGate(t, s.Setting("SALE"), -1)
	start := time.Now()
	repaired := make(chan string, 1)
	go func() {
		defer close(repaired)
		repaired <- s.Exits(t, 0, "reconcile", "--apply")
	}()
	var report string
	for running := true; running; {
		a := buy()
		assert.Equal(t, http.StatusAccepted, a.Status, "buyers are admitted during a repair: %v", a.Body)
		select {
		case report = <-repaired:
			running = false
		case <-time.After(100 * time.Millisecond):
		}
	}
	require.Contains(t, report, "gate_differs")
	require.Contains(t, report, ": 1 finding repaired, 0 left")
	t.Log("repaired after", time.Since(start))

	rig.RequireSettled(t, s)
	id, err := strconv.ParseInt(s.Setting("SALE"), 10, 64)
	require.NoError(t, err)
	level, err := admission.New(admission.Config{Redis: rdb}).Level(t.Context(), id)
	require.NoError(t, err)
	require.EqualValues(t, million+left, level.Stock+level.Held)
	start = time.Now()
	s.Verify(t)
	t.Log("verified in", time.Since(start))
}

// sellMillion inserts 1,000,000 paid orders of different users and takes their units from the stock. The table of orders must
// be empty, so that MariaDB fills it in bulk.
func sellMillion(t *testing.T, s *rig.Stack, sale string) {
	t.Helper()
	start := time.Now()
	s.Query(t, func(db *sql.DB) {
		db.SetMaxOpenConns(1)
		for _, statement := range []string{
			"SET SESSION unique_checks = 0, foreign_key_checks = 0",
			fmt.Sprintf(`INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, paid_at, updated_at)
				SELECT %s + 1 + n, 1000001 + n, %s, 1, 2, 1000, NOW(3), NOW(3), NOW(3), NOW(3) FROM %s numbers ORDER BY n`,
				unusedOrderID, sale, env.Numbers(6)),
			fmt.Sprintf("UPDATE seckill_vouchers SET stock = stock - %d WHERE voucher_id = %s", million, sale),
		} {
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
	})
	t.Log("1,000,000 orders written in", time.Since(start))
}
