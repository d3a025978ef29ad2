package e2e

import (
	"context"
	"database/sql"
	_ "embed"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

//go:embed testdata/previous.sql
var previousSchema string

// The sale of previousSchema, and its first order, which user 2 placed with a key.
const (
	previousSale  = "5"
	previousStock = 198 // without the other 800 units
	previousUser  = 2
	previousOrder = "3373502137664528071"
	previousKey   = "rollout-0"
)

// buyAsPrevious buys a unit in one transaction with the statements and columns of the version of previousSchema. It
// returns false if the sale is sold out.
func buyAsPrevious(ctx context.Context, db *sql.DB, orderID, userID int64) (bool, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, "INSERT INTO voucher_orders "+
		"(id, user_id, voucher_id, slot, status, amount, currency, created_at, expires_at, updated_at, idem_key, idem_request) "+
		"VALUES (?, ?, ?, 1, 1, 100, 'CNY', NOW(3), '2099-01-01', NOW(3), NULL, NULL)", orderID, userID, previousSale)
	if err != nil {
		return false, err
	}
	res, err := tx.ExecContext(ctx,
		"UPDATE seckill_vouchers SET stock = stock - 1, updated_at = NOW(3) WHERE voucher_id = ? AND stock >= 1", previousSale)
	if err != nil {
		return false, err
	}
	if n, err := res.RowsAffected(); n == 0 {
		return false, err
	}
	return true, tx.Commit()
}

// TestPreviousSchema starts two servers at once on the schema and data of the previous version, in mid-rush: they change
// the schema while the statements of the previous version go on buying. Its orders and keys stay valid.
func TestPreviousSchema(t *testing.T) {
	t.Parallel()
	s := rig.RealStack(t).OnEmptyDatabase(t)
	s.Query(t, func(db *sql.DB) {
		for statement := range strings.SplitSeq(previousSchema, ";\n") {
			if strings.TrimSpace(statement) != "" {
				_, err := db.ExecContext(t.Context(), statement)
				require.NoError(t, err, statement)
			}
		}
		for _, statement := range []string{
			"UPDATE seckill_vouchers SET initial_stock = initial_stock - 800, stock = stock - 800 WHERE voucher_id = " + previousSale,
			"UPDATE voucher_orders SET created_at = UTC_TIMESTAMP(3)", // a key ends after domain.KeyLife
		} {
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
	})
	var previous sync.WaitGroup
	bought, started := int64(0), make(chan struct{})
	previous.Go(func() {
		s.Query(t, func(db *sql.DB) {
			for ; ; bought++ {
				if bought == previousStock/2 {
					<-started // the other half is sold by both versions
				}
				if ok, err := buyAsPrevious(t.Context(), db, 1_000_000+bought, 1_000_000+bought); err != nil || !ok {
					if err != nil {
						t.Errorf("purchase %d with the statements of the previous version: %v", bought, err)
					}
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	})
	addrs := []string{rig.FreeAddr(t), rig.FreeAddr(t)}
	servers := make([]*rig.Server, len(addrs))
	var starting sync.WaitGroup
	for i := range servers {
		starting.Go(func() { servers[i] = s.Spawn(t, addrs[i]) })
	}
	starting.Wait()
	close(started)
	c := rig.BuyersOf(previousSale, previousStock, s.Tokens(t, 300), servers...)
	c.Parallel = 16
	r := c.Run(t.Context())
	previous.Wait()
	require.Positive(t, bought)
	require.Positive(t, r.Codes["ok"])
	rig.RequireStock(t, servers[0].Client, previousSale, 0)
	require.EqualValues(t, previousStock+2, s.Count(t, "SELECT COUNT(*) FROM voucher_orders WHERE slot IS NOT NULL AND voucher_id = "+previousSale))
	s.Query(t, func(db *sql.DB) {
		_, err := db.ExecContext(t.Context(), "INSERT INTO seckill_vouchers (voucher_id, initial_stock, stock, begin_at, end_at, limit_per_user, "+
			"created_at, updated_at, entry_mode, pass_ttl, entry_epoch, pay_timeout, unpaid_limit, entry_challenge, entry_opens_at, entry_rate, "+
			"entry_paused, entry_message) VALUES (1, 1, 1, NOW(3), '2099-01-01', 1, NOW(3), NOW(3), 0, 10, 0, NULL, NULL, 0, NULL, 100, 0, '')")
		require.NoError(t, err, "a sale that the previous version publishes")
	})
	s.Verify(t)

	tokens, err := auth.NewTokens(domain.NewKeyring([]byte(rig.TestSecret)), time.Now)
	require.NoError(t, err)
	token, err := tokens.Access(auth.Identity{UserID: previousUser, SessionID: auth.NewSessionID(), Role: domain.RoleBuyer}, time.Minute)
	require.NoError(t, err)
	again := servers[0].Do(t, rig.Purchase(previousSale, token).Keyed(previousKey))
	require.Equal(t, previousOrder, again.Order(), "the key of an order of the previous version: %s", again.Text)
	require.EqualValues(t, 1, s.Count(t, "SELECT COUNT(*) FROM voucher_orders WHERE user_id = 2"))
	require.EqualValues(t, 1, s.Count(t, "SELECT COUNT(*) FROM voucher_orders WHERE status = 2 AND id = "+previousOrder))
}

// envPrevious is the path of the binary of the previous release, which runs beside this version.
const envPrevious = "SECKILL_TEST_PREVIOUS"

// TestPreviousBinaryInMidRush starts this version beside the previous release in mid-rush, which changes the schema under
// it. The previous release goes on selling and can be started again on the new schema.
func TestPreviousBinaryInMidRush(t *testing.T) {
	t.Parallel()
	env.Full(t)
	binary := os.Getenv(envPrevious)
	if binary == "" {
		t.Skip("no previous release in " + envPrevious)
	}
	for _, lane := range rig.Lanes {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s := rig.RealStack(t).OnEmptyDatabase(t).In(lane)
			old := *s
			old.Binary = binary
			code, out := old.Run(t, "migrate", "up")
			require.Zero(t, code, out)
			before := old.Spawn(t, rig.FreeAddr(t))
			tokens := old.Seed(t, 1201)
			addr := rig.FreeAddr(t)
			proxy, front := newReadinessProxy(t, []string{before.URL, "http://" + addr})
			c := rig.BuyersOf(before.Sale(t, 1000), 1000, tokens[:1200])
			through, err := rush.NewClient(front, 256)
			require.NoError(t, err)
			t.Cleanup(through.Close)
			c.Clients = []*rush.Client{through}
			rig.Eventually(t, "the proxy has found the server", proxy.ready[0].Load)
			wait := rig.LongRush(t, s, c, 12*time.Second)
			after := s.Spawn(t, addr)
			rig.Eventually(t, "the proxy has found the new server", proxy.ready[1].Load)
			require.Positive(t, s.Count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+c.VoucherID), "both versions sell")
			r := wait()
			c.Clients = []*rush.Client{after.Client}
			rig.RequireSoldOut(t, s, c, r)
			rig.RequireInvariants(t, s, c, r)

			before.Stop(t)
			again := old.Spawn(t, "")
			rig.RequireReady(t, again)
			sale := after.Sale(t, 1)
			again.Must(t, rig.Purchase(sale, tokens[1200]))
			rig.RequireSettled(t, s)
			s.Verify(t)
		})
	}
}
