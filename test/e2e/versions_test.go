package e2e

import (
	"context"
	"database/sql"
	_ "embed"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/test/e2e/rig"
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
	var bought atomic.Int64
	started := make(chan struct{})
	previous.Go(func() {
		s.Query(t, func(db *sql.DB) {
			for ; ; bought.Add(1) {
				n := bought.Load()
				if n == previousStock/2 {
					<-started // the other half is sold by both versions
				}
				if ok, err := buyAsPrevious(t.Context(), db, 1_000_000+n, 1_000_000+n); err != nil || !ok {
					if err != nil {
						t.Errorf("purchase %d with the statements of the previous version: %v", n, err)
					}
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	})
	addrs := []string{rig.FreeAddr(t), rig.FreeAddr(t)}
	servers := make([]*rig.Server, len(addrs))
	concurrently(len(servers), func(i int) { servers[i] = s.Spawn(t, addrs[i]) })
	before := bought.Load()
	close(started)
	c := rig.BuyersOf(previousSale, previousStock, s.Tokens(t, 300), servers...)
	c.For = time.Second // at once, a fast machine could sell all that is left before the previous version buys
	r := c.Run(t.Context())
	previous.Wait()
	require.Greater(t, bought.Load(), before, "beside the servers")
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

// TestUpgradeOfEmbeddedServer starts a server on a data directory whose schema is that of version 25, in the middle of a
// sale: it changes the schema, keeps orders, keys and logins, and sells the rest.
func TestUpgradeOfEmbeddedServer(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		old := s.Serve(t)
		sale, tokens := old.Sale(t, 20), s.Tokens(t, 40)
		refresh := logIn(t, old, rig.NewPhone())["refresh_token"]
		keyed := rig.Purchase(sale, tokens[0]).Keyed("before")
		first := old.Do(t, keyed)
		cancelled := old.Buy(t, tokens[1], sale).ID
		old.MustCancel(t, tokens[1], cancelled)
		for _, token := range tokens[2:10] {
			old.Buy(t, token, sale)
		}
		require.Zero(t, old.Stop(t))
		for {
			out := s.Exits(t, 0, "migrate", "down")
			if strings.Contains(out, "rolled back 00027") {
				break
			}
		}

		p := s.Serve(t)
		require.Equal(t, first.Order(), p.Do(t, keyed).Order(), "the key has its order")
		o, err := p.Order(t.Context(), tokens[1], cancelled)
		require.NoError(t, err)
		require.Equal(t, "cancelled", o.Status)
		p.Must(t, rig.Post("/auth/refresh", "", map[string]any{"refresh_token": refresh}))

		c := rig.BuyersOf(sale, 20, tokens, p)
		r := c.Run(t.Context())
		rig.RequireAllServed(t, s, c, r)
		require.NotContains(t, s.Exits(t, 0, "migrate", "status"), "pending")
	})
}

// logIn logs a phone in, and returns the answer.
func logIn(t *testing.T, p *rig.Server, phone string) map[string]any {
	t.Helper()
	sent := p.Do(t, rig.Post("/auth/code", "", map[string]any{"phone": phone}))
	return p.Must(t, rig.Post("/auth/login", "", map[string]any{"phone": phone, "code": sent.Header.Get("X-Demo-Code")}))
}
