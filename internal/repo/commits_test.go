package repo

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/test/env"
)

// commitCutter is a proxy to a MySQL server. When it is armed, it drops the next COMMIT and closes the connection to
// the server, which rolls the transaction back. Then it calls meanwhile, answers with the error code if it is not 0, and
// closes the connection to the client.
type commitCutter struct {
	addr      string
	armed     atomic.Bool
	meanwhile func()
	code      atomic.Uint32
}

func cutCommits(t *testing.T, server string) *commitCutter {
	t.Helper()
	l := env.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	c := &commitCutter{addr: l.Addr().String()}
	network := "tcp"
	if strings.HasPrefix(server, "/") {
		network = "unix"
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial(network, server)
			if err != nil {
				_ = client.Close()
				return
			}
			go c.forward(client, upstream)
			go func() { _, _ = io.Copy(client, upstream); _ = client.Close() }()
		}
	}()
	return c
}

func (c *commitCutter) forward(client, upstream net.Conn) {
	defer upstream.Close()
	defer client.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte("\x03COMMIT")) && c.armed.CompareAndSwap(true, false) {
			upstream.Close() // before meanwhile, which must not wait for the locks of the transaction
			c.meanwhile()
			if code := c.code.Load(); code != 0 {
				_, _ = client.Write(errorPacket(uint16(code)))
			}
			return
		}
		if _, err := upstream.Write(buf[:n]); err != nil {
			return
		}
	}
}

// errorPacket returns the answer of a MySQL server that refuses a statement.
func errorPacket(code uint16) []byte {
	body := append(binary.LittleEndian.AppendUint16([]byte{0xff}, code), "#HY000planted"...)
	return append([]byte{byte(len(body)), 0, 0, 1}, body...)
}

// startCommitCutter opens a store through a commitCutter.
func startCommitCutter(t *testing.T, kind env.Kind) (s *Store, dsn string, proxy *commitCutter) {
	dsn = kind.MigratedDSN(t)
	cfg := env.Must(mysqldriver.ParseDSN(dsn))(t)
	proxy = cutCommits(t, cfg.Addr)
	cfg.Net, cfg.Addr = "tcp", proxy.addr
	return openStore(t, cfg.FormatDSN()), dsn, proxy
}

// A COMMIT is lost, and another process stores only one of the orders, under the same id. The others must not count as
// stored because of it.
func TestLostCommitPartlyStoredElsewhere(t *testing.T) {
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		s, dsn, proxy := startCommitCutter(t, kind)
		other := openStore(t, dsn)
		v := newSale(t, s, 10, 1)
		proxy.meanwhile = func() {
			env.Must(placeOrder(context.Background(), other, newOrder(1, 10, v.ID), 1))(t)
		}
		proxy.armed.Store(true)
		placed := s.PlaceOrders(t.Context(), withLimit(1, []domain.Order{newOrder(1, 10, v.ID), newOrder(2, 11, v.ID)}))
		require.False(t, proxy.armed.Load())
		require.Equal(t, []string{"order 1", "order 2"}, outcomes(placed))
		for _, p := range placed {
			require.False(t, p.Before, "an order of before would get another id")
			_, err := s.Order(t.Context(), p.Order.UserID, p.Order.ID)
			require.NoError(t, err, "order %d is stored", p.Order.ID)
		}
		requireTotals(t, s, v.ID, 8, 2)
	})
}

// A lock that is lost before the commit excludes its own order and no other.
func TestOrderIsNotCommittedAfterFenceEnds(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		held, lose := context.WithCancelCause(t.Context())
		lost, cancel := context.WithCancel(t.Context())
		cancel()
		orders := withLimit(1, []domain.Order{newOrder(1, 10, v.ID), newOrder(2, 11, v.ID), newOrder(3, 12, v.ID)})
		orders[1].Fence, orders[2].Fence = lost, held
		placed := s.PlaceOrders(t.Context(), orders)
		require.NoError(t, placed[0].Err)
		require.ErrorIs(t, placed[1].Err, domain.ErrUnavailable)
		require.NoError(t, placed[2].Err)
		requireTotals(t, s, v.ID, 8, 2)

		// The lock is lost while the transaction runs, between the first statement and the commit.
		inTransaction := &losingContext{Context: held, lose: func() { lose(context.Canceled) }, after: 1}
		orders = withLimit(1, []domain.Order{newOrder(4, 13, v.ID), newOrder(5, 14, v.ID)})
		orders[0].Fence = inTransaction
		placed = s.PlaceOrders(t.Context(), orders)
		require.ErrorIs(t, placed[0].Err, domain.ErrUnavailable)
		require.NoError(t, placed[1].Err)
		requireTotals(t, s, v.ID, 7, 3)
	})
}

// losingContext is a context whose Err calls lose, from the call number after+1 on.
type losingContext struct {
	context.Context
	lose  func()
	after int
}

func (l *losingContext) Err() error {
	if l.after--; l.after < 0 {
		l.lose()
	}
	return l.Context.Err()
}

// A statement that the database did not execute changed nothing, so the order is placed by another transaction. The
// repetitions are bounded. Package sqldb has the errors that mean this.
func TestRefusedStatementIsRepeated(t *testing.T) {
	env.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		s, faults := newStore(db), env.Inject(db)
		v := newSale(t, s, 10, 1)
		refuse := func(times int) {
			faults.Before(func(query string) error {
				if strings.HasPrefix(query, "UPDATE `seckill_vouchers`") && times > 0 {
					times--
					return domain.ErrUnavailable
				}
				return nil
			})
		}

		refuse(sqldb.MaxOutages - 1)
		env.Must(placeOrder(t.Context(), s, newOrder(1, 10, v.ID), 1))(t)
		refuse(sqldb.MaxOutages)
		env.Fails(placeOrder(t.Context(), s, newOrder(2, 11, v.ID), 1))(t, domain.ErrUnavailable)
		requireTotals(t, s, v.ID, 9, 1)
	})
}

// An error of COMMIT does not always mean that nothing was stored. The order is stored once all the same.
func TestRefusedCommitIsRepeated(t *testing.T) {
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		s, _, proxy := startCommitCutter(t, kind)
		proxy.meanwhile = func() {}
		v := newSale(t, s, 100, 1)
		for i, code := range []uint16{1213, 3101, 1180, 1047, 1205, 1290} {
			id := int64(i + 1)
			proxy.code.Store(uint32(code))
			proxy.armed.Store(true)
			placed, err := placeOrder(t.Context(), s, newOrder(id, id, v.ID), 1)
			require.NoError(t, err, code)
			require.Equal(t, id, placed.ID)
			require.False(t, proxy.armed.Load())
		}
		requireTotals(t, s, v.ID, 94, 6)
	})
}
