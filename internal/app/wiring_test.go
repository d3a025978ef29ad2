package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/kit/loop"
	"seckill/internal/ops/salestats"
	"seckill/internal/out/webhook"
	"seckill/internal/repo"
	"seckill/internal/sale/queue"
	"seckill/internal/web"
	"seckill/test/env"
)

// TestUserLocksCloseTheirNodes: the connections to lock nodes end with the locks; those to the Redis of the sales do not.
func TestUserLocksCloseTheirNodes(t *testing.T) {
	t.Parallel()
	rdb := openEmbedded(RedisInfo{Addr: env.StartMiniredis(t).Addr()})
	defer rdb.Close()

	locks := env.Must(openUserLocks(Config{LockNodes: []string{env.StartMiniredis(t).Addr()}}, rdb, nil))(t)
	require.NoError(t, locks.ping(t.Context()))
	locks.close()
	require.ErrorIs(t, locks.ping(t.Context()), redis.ErrClosed)

	locks = env.Must(openUserLocks(Config{}, rdb, nil))(t)
	locks.close()
	require.NoError(t, locks.ping(t.Context()))
}

// TestEndedSessionIsRefusedFromTheStart: a new server knows the sessions that ended before it answers its first request.
func TestEndedSessionIsRefusedFromTheStart(t *testing.T) {
	t.Parallel()
	store := env.Must(repo.OpenSQLite(env.SQLiteFile(t)))(t)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	now := domain.Moment(time.Now())
	require.NoError(t, store.RevokeSession(t.Context(), "ended", now))

	w := &wiring{
		backends: backends{store: store, secrets: domain.ParseKeyring(strings.Repeat("s", 32))},
		env:      &Env{Ctx: t.Context()},
		cfg:      Config{SMSCountries: []string{"CN"}},
		log:      slog.New(slog.DiscardHandler),
		now:      time.Now,
	}
	p := env.Must(w.newPeople())(t)
	require.True(t, p.revoked.Has("ended"))
	require.False(t, p.revoked.Has("another"))
}

// TestInvalidationBusReconnects checks that every server receives an id, before and after an outage of Redis.
func TestInvalidationBusReconnects(t *testing.T) {
	m := env.StartMiniredis(t)
	received := make(chan int64, 1000)
	var buses []*invalidationBus
	for range 2 {
		rdb := openEmbedded(RedisInfo{Addr: m.Addr()})
		t.Cleanup(func() { _ = rdb.Close() })
		b := newInvalidationBus(rdb, slog.New(slog.DiscardHandler), VouchersChannel)
		buses = append(buses, b)
		env.InBackground(t, b.send)
		env.InBackground(t, func(ctx context.Context) { b.receive(ctx, func(id int64) { received <- id }) })
	}
	// The id is published repeatedly, because a message is lost until both servers are subscribed.
	requireReceived := func(id int64) {
		times := 0
		require.Eventually(t, func() bool {
			buses[0].publish(id)
			select {
			case got := <-received:
				if got == id {
					times++
				}
			default:
			}
			return times >= 2
		}, time.Minute, 10*time.Millisecond)
	}
	requireReceived(7)
	m.Close()
	buses[0].publish(8) // lost
	require.NoError(t, m.Restart())
	requireReceived(9)

	require.NoError(t, buses[0].rdb.Publish(t.Context(), VouchersChannel, "no id,,-").Err())
	requireReceived(10)
}

// TestSolutionIsUsedUpOnce checks that two servers do not accept the same solution, and that it is forgotten later.
func TestSolutionIsUsedUpOnce(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		a, b := usedSolutions{rdb.(redis.UniversalClient)}, usedSolutions{rdb.(redis.UniversalClient)}
		useUp := func(u usedSolutions, id string) bool {
			return env.Must(u.UseUp(t.Context(), id, 3*time.Minute))(t)
		}
		require.True(t, useUp(a, "1"))
		require.False(t, useUp(b, "1"))
		require.False(t, useUp(a, "1"))
		require.True(t, useUp(b, "2"))
		require.InDelta(t, 3*time.Minute, env.Must(rdb.PTTL(t.Context(), "seckill:solution:1").Result())(t), float64(time.Minute))

		require.NoError(t, rdb.Close())
		env.Fails(a.UseUp(t.Context(), "3", time.Minute))(t, domain.ErrUnavailable)
	})
}

// A close cancels a rush and returns at its deadline, even if the rush never ends.
func TestShutdownDoesNotWaitForStuckRush(t *testing.T) {
	t.Parallel()
	r := newRushRunner(nil, nil, nil)
	r.setURL("http://127.0.0.1:1")
	running, cancel := context.WithCancelCause(t.Context())
	r.last.State, r.cancel = domain.RushRunning, cancel // without an end
	r.close(env.Cancelled(t.Context()))
	require.ErrorIs(t, context.Cause(running), errShutdown)
	env.Fails(r.Start(t.Context(), nil, 1, domain.RushPlan{Buyers: 1, Stock: 1}))(t, domain.ErrUnavailable)
}

// TestRushNamesItsReason: the page explains a cause by its code, also beside another failure.
func TestRushNamesItsReason(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]domain.RushReason{
		errRushStopped: domain.RushStopped, errRushTimeout: domain.RushTimeout, errShutdown: domain.RushShutdown,
		errors.New("seed the buyers: disk full"): "",
	} {
		require.Equal(t, want, reasonOf(errors.Join(cause, errors.New("end the sale"))), cause)
	}
}

// Purchases by other users in the rush's sale break no invariant; a real difference does.
func TestRushVerdictsUseDatabaseTotals(t *testing.T) {
	clients := domain.NewVerdict("I3", false, "39 sold + 0 left = 39")
	totals := domain.SaleTotals{InitialStock: 40, Active: 40}
	require.Equal(t, domain.NewVerdict("I3", true, "0 left + 40 active = 40"), withTotals(clients, totals))
	totals.Active = 39
	require.True(t, withTotals(clients, totals).Broken())
	clients.ID = "I4" // concerns answers, which the database does not have
	require.Equal(t, clients, withTotals(clients, totals))
}

// TestCodesAreSentToURL: package webhook has the rules of every call. An error has neither the phone nor the code.
func TestCodesAreSentToURL(t *testing.T) {
	t.Parallel()
	now := time.Unix(1794398400, 0)
	status := http.StatusNoContent
	secret := strings.Repeat("e", 32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != `{"code":"123456","expires_at":"2026-11-11T12:02:00Z","phone":"13800000001"}` ||
			r.Header.Get(webhook.SignatureHeader) != webhook.Sign([]byte(secret), body, now) || r.UserAgent() != UserAgent() {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	send := func() error {
		cfg := Config{CodeURL: server.URL, EventsSecret: secret + ",an older secret"}
		return newCodeSender(cfg, func() time.Time { return now }, nil)(t.Context(), "13800000001", "123456", now.Add(2*time.Minute))
	}
	require.NoError(t, send())
	status = http.StatusInternalServerError
	err := send()
	require.ErrorContains(t, err, "SECKILL_CODE_URL: answered with status 500")
	require.NotRegexp(t, "123456|13800000001", err.Error())
}

func TestCodesWithoutReceiver(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	send := func(demo bool) error {
		return newCodeSender(Config{Demo: &demo}, time.Now, slog.New(slog.NewTextHandler(&log, nil)))(t.Context(), "13800000001", "123456", time.Now())
	}
	require.ErrorIs(t, send(false), errNoSender)
	require.Empty(t, log.String())
	require.NoError(t, send(true))
	require.Contains(t, log.String(), "phone=13800000001 code=123456")
}

// placed is an OrderPlacer that returns itself.
type placed []domain.Placed

func (p placed) PlaceOrders(context.Context, []domain.NewOrder) []domain.Placed { return p }

// An order that was there before, or that a repeated request finds, is no row of the transaction.
func TestStoredOrdersAreCounted(t *testing.T) {
	rows := map[int64]int{}
	c := countedOrders{
		OrderPlacer: placed{{}, {}, {}, {Err: domain.ErrSoldOut}, {Before: true}, {Replayed: true}},
		count:       func(voucherID int64, stored int) { rows[voucherID] += stored },
	}
	orders := make([]domain.NewOrder, 6)
	for i, voucher := range []int64{7, 8, 7, 7, 9, 7} {
		orders[i].VoucherID = voucher
	}
	require.Len(t, c.PlaceOrders(t.Context(), orders), len(orders))
	require.Equal(t, map[int64]int{7: 2, 8: 1}, rows)
}

// TestPrice: a currency has its own number of decimals, and its code tells yuan from yen.
func TestPrice(t *testing.T) {
	for want, c := range map[string]struct {
		amount int64
		code   string
	}{
		"CNY 80.00": {8000, "CNY"}, "CNY 0.05": {5, "CNY"}, "JPY 111": {111, "JPY"}, "KWD 1.005": {1005, "KWD"},
	} {
		require.Equal(t, want, price(c.amount, c.code))
	}
}

func TestVersionOfBuild(t *testing.T) {
	const pseudo = "v0.0.0-20261122230000-0123456789ab+dirty"
	info := func(version string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}, {Key: "vcs.time", Value: "2026-11-22T23:00:00Z"},
		}}
	}
	require.Equal(t, "1.2.3", versionOf("1.2.3", info(pseudo)), "that of a release comes first")
	require.Equal(t, pseudo, versionOf("", info(pseudo)))
	for _, unknown := range []*debug.BuildInfo{info("(devel)"), info(""), nil} {
		require.Equal(t, "devel", versionOf("", unknown))
	}
	require.Equal(t, "1.2.3 (commit 0123456789ab of 2026-11-22T23:00:00Z)", versionDetailsOf("1.2.3", info("")))
	require.Equal(t, "devel", versionDetailsOf("devel", &debug.BuildInfo{}))
	require.Equal(t, "devel", versionDetailsOf("devel", nil))
}

// A User-Agent is product/version, and both are tokens (RFC 9110, section 10.1.5).
func TestUserAgentIsAToken(t *testing.T) {
	require.Regexp(t, "^seckill/[-!#$%&'*+.^_`|~0-9A-Za-z]+$", UserAgent())
}

// demoStart is when the demo of the tests starts for the first time.
var demoStart = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// TestDemoContent: the texts are in the language of the environment, and the pictures are small.
func TestDemoContent(t *testing.T) {
	for language, want := range map[string]string{"zh_CN.UTF-8": `\p{Han}`, "C.UTF-8": `^[^\p{Han}]*$`, "": `^[^\p{Han}]*$`} {
		t.Setenv("LC_ALL", "")
		t.Setenv("LC_MESSAGES", "")
		t.Setenv("LANG", language)
		shops, images, vouchers, err := demoContent(demoStart)
		require.NoError(t, err)
		for _, p := range images {
			require.Less(t, len(p.JPEG), 60<<10)
		}
		for _, v := range vouchers {
			require.NotEmpty(t, v.ImageID)
			require.True(t, v.Sale == nil || v.Sale.EndAt.After(v.CreatedAt), "doctor reports it")
			shop := shops[v.ShopID-1]
			for _, text := range []string{v.Title, v.SubTitle, v.Rules, shop.Name, shop.Area, shop.Address} {
				require.Regexp(t, want, text, language)
			}
		}
	}
	t.Setenv("LC_ALL", "zh")
	require.Regexp(t, `\p{Han}`, RushTitle(7), "LC_ALL comes first")
}

type shelf struct{ vouchers []domain.Voucher }

func (s *shelf) ChangeVoucher(
	_ context.Context, id int64, _ domain.Actor, change func(*domain.Voucher) (string, error),
) (domain.Voucher, error) {
	_, err := change(&s.vouchers[id-1])
	return s.vouchers[id-1], err
}

// TestOneSaleIsAlwaysRunning looks at the demo every 20 minutes for a week, and once more after a month without a server.
// Sales that were renamed or unpublished stay as they are.
func TestOneSaleIsAlwaysRunning(t *testing.T) {
	_, _, vouchers, err := demoContent(demoStart)
	require.NoError(t, err)
	for i := range vouchers {
		require.EqualValues(t, i+1, vouchers[i].ID)
	}
	s, now, moved := &shelf{vouchers}, demoStart, 0
	renew := func() error { return renewDemo(t.Context(), s, now, func(context.Context, int64) { moved++ }) }

	look := func() {
		require.NoError(t, renew())
		states := map[domain.SaleState]int{}
		for _, v := range s.vouchers {
			if v.Sale != nil {
				states[v.State(now)]++
			}
		}
		require.Equal(t, map[domain.SaleState]int{domain.StateOnSale: 1, domain.StateUpcoming: 1, domain.StateEnded: 1}, states, now)
	}

	for ; now.Before(demoStart.AddDate(0, 0, 7)); now = now.Add(20 * time.Minute) {
		look()
	}

	window := s.vouchers[1].Sale.EndAt.Sub(s.vouchers[1].Sale.BeginAt)
	require.InDelta(t, 7*24*time.Hour/window, moved, 1, "one begins when the other ends")

	now = now.AddDate(0, 1, 0)
	look()

	s.vouchers[1].Title, s.vouchers[2].Status = "Breakfast", domain.VoucherOff
	before := []time.Time{s.vouchers[1].Sale.EndAt, s.vouchers[2].Sale.EndAt}
	now = now.AddDate(0, 0, 1)
	require.NoError(t, renew())
	require.Equal(t, before, []time.Time{s.vouchers[1].Sale.EndAt, s.vouchers[2].Sale.EndAt})
}

func TestAccountsAreOfServedCountries(t *testing.T) {
	all := demoAccounts("13800000000", []string{"DE", "CN"})
	require.Len(t, all, 5)
	require.Equal(t, web.Account{Role: string(domain.RoleAdmin), Phone: "13800000000"}, all[4])
	require.Equal(t, []web.Account{{Role: string(domain.RoleAdmin), Phone: "+4915112345678"}}, demoAccounts("+4915112345678", []string{"DE"}))
	require.Equal(t, domain.RoleViewer, demoRoles["13800000011"])
}

func TestMain(m *testing.M) { env.Main(m) }

// TestReplicaIsNotReady: a Redis that became the replica of another one, or has no memory left, answers PING and refuses
// every purchase. An ACL that forbids the check does not make it red.
func TestReplicaIsNotReady(t *testing.T) {
	t.Parallel()
	master, node := env.StartRedis(t), env.StartRedis(t)
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	admin := node.Client(t)
	cfg := Config{RedisAddrs: []string{node.Addr}, LockNodes: []string{node.Addr}}
	requireReady := func(checks map[string]handler.Check) {
		require.NoError(t, checks["redis"](t.Context()))
		require.NoError(t, checks["lock nodes"](t.Context()))
	}
	checks := redisChecks(t, cfg)

	requireReady(checks)
	require.NoError(t, admin.ReplicaOf(t.Context(), host, port).Err())
	requireRefused := func(reason string) {
		for _, name := range []string{"redis", "lock nodes"} {
			require.ErrorContains(t, checks[name](t.Context()), reason, name)
		}
	}
	requireRefused("READONLY")
	require.NoError(t, admin.ReplicaOf(t.Context(), "NO", "ONE").Err())
	requireReady(checks)

	require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
	requireRefused("OOM")
	require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
	requireReady(checks)
	require.Zero(t, env.Must(admin.DBSize(t.Context()).Result())(t), "the check stores nothing")

	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "narrow", "on", ">secret", "~other:*", "+@all").Err())
	cfg.RedisUsername, cfg.RedisPassword = "narrow", "secret"
	requireReady(redisChecks(t, cfg))
}

func redisChecks(t *testing.T, cfg Config) map[string]handler.Check {
	t.Helper()
	rdb := env.Must(SharedRedis(cfg))(t)
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	locks := env.Must(openUserLocks(cfg, rdb, nil))(t)
	t.Cleanup(locks.close)
	return readyChecks(cfg, backends{store: &repo.Store{}, rdb: rdb, locks: locks}, &drain{})
}

// A minority that hangs delays no check. A majority is waited for until the check ends.
func TestReadyWithNodesThatHang(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context, node redis.UniversalClient) error {
		if node != nil {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	answers := redis.NewClient(&redis.Options{})
	defer func() { require.NoError(t, answers.Close()) }()

	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.NoError(t, quorum(ctx, []redis.UniversalClient{nil, answers, answers}, hangs))
		require.NoError(t, quorum(ctx, []redis.UniversalClient{answers, nil, answers, nil, answers}, hangs))
		require.Zero(t, time.Since(began))
		require.ErrorIs(t, quorum(ctx, []redis.UniversalClient{answers, nil, nil}, hangs), context.DeadlineExceeded)
	})
}

// TestStartGivesUp: a server that does not answer is waited for, but not without end.
func TestStartGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &Env{Ctx: t.Context(), Log: slog.New(slog.DiscardHandler)}
		began := time.Now()
		tries := 0
		err := WaitFor(e, "the database", func(context.Context) error {
			tries++
			return domain.ErrUnavailable
		})
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.ErrorContains(t, err, "the database does not answer (waited for 30s)")
		require.Equal(t, startTimeout, time.Since(began))
		require.Greater(t, tries, 10)
	})
}

// A database that goes away after it answered the first time is waited for. Other errors end the start at once.
func TestPrepareDatabaseWaits(t *testing.T) {
	db := env.OneKind(t).Start(t)
	no := false
	cfg := Config{MySQLDSN: db.DSN(t), Demo: &no}
	store := env.Must(OpenStore(cfg))(t)
	t.Cleanup(func() { require.NoError(t, store.Close()) })

	entries, log := io.Pipe()
	e := &Env{Ctx: t.Context(), Config: cfg, Log: slog.New(slog.NewTextHandler(log, nil))}
	require.NoError(t, store.Ping(t.Context()))
	db.Kill()
	done := env.Go(func() error { return prepareDatabase(e, store) })
	env.Must(entries.Read(make([]byte, 1)))(t)
	require.NoError(t, entries.Close()) // later ones are lost
	require.Empty(t, done)
	require.NoError(t, db.Restart())
	require.NoError(t, <-done)
	all := env.Must(store.Migrations(t.Context()))(t)
	require.NotZero(t, all[len(all)-1].Applied)

	foreign := env.Must(OpenStore(Config{MySQLDSN: db.DSN(t)}))(t)
	t.Cleanup(func() { require.NoError(t, foreign.Close()) })
	env.Must(foreign.Pools()["write"].ExecContext(t.Context(), "CREATE TABLE users (id INT)"))(t)
	require.ErrorContains(t, prepareDatabase(e, foreign), "users")
}

// During the drain the check fails, idle and new connections are served, and every answer ends its connection.
func TestDrainServesAndClosesConnections(t *testing.T) {
	t.Parallel()
	var d drain
	server := httptest.NewServer(d.handler(http.NotFoundHandler()))
	defer server.Close()
	get := func() (reused, closes bool) {
		trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		req := env.Must(http.NewRequestWithContext(trace, http.MethodGet, server.URL, nil))(t)
		res := env.Must(server.Client().Do(req))(t)
		env.Must(io.Copy(io.Discard, res.Body))(t) // otherwise the client does not reuse the connection
		require.NoError(t, res.Body.Close())
		return reused, res.Close
	}
	_, closes := get()
	require.False(t, closes)
	require.NoError(t, d.check(t.Context()))

	failed := make(chan error)
	drained := env.Go(func() error { return d.run(time.Hour, failed) })
	require.Eventually(t, func() bool { return errors.Is(d.check(t.Context()), errDraining) }, time.Minute, time.Millisecond)
	reused, closes := get()
	require.True(t, reused, "the idle connection is served")
	require.True(t, closes)
	reused, closes = get()
	require.False(t, reused)
	require.True(t, closes)

	broken := errors.New("the listener failed")
	failed <- broken
	require.ErrorIs(t, <-drained, broken)
}

// pipes is a listener in memory, whose connections follow the clock of synctest.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	conn, server := net.Pipe()
	p <- server
	return conn
}

// A client that sends its request byte by byte, or does not read its answer, keeps its connection for seconds.
func TestSlowClientsAreDisconnected(t *testing.T) {
	const post, get = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes)
		failed := make(chan error, 1)
		server := publicServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err == nil && r.Method == http.MethodPost {
				_, _ = io.WriteString(w, "complete")
			}
			if r.URL.Path == "/large" {
				_, err := w.Write(make([]byte, 1<<20))
				failed <- err
			}
		}), slog.New(slog.DiscardHandler))
		stopped := env.Go(func() error { return server.Serve(listener) })

		for name, tc := range map[string]struct {
			atOnce, slowly string
			ends           time.Duration
		}{
			"silence":              {"", "", readTimeout},
			"slow header":          {"", post, readTimeout},
			"slow body":            {post, strings.Repeat("x", 1000), readTimeout},
			"idle after an answer": {get, "", idleTimeout},
		} {
			conn, began := listener.dial(), time.Now()
			var sending sync.WaitGroup
			sending.Go(func() {
				_, err := io.WriteString(conn, tc.atOnce)
				for i := 0; i < len(tc.slowly) && err == nil; i++ {
					_, err = io.WriteString(conn, tc.slowly[i:i+1])
					time.Sleep(time.Second)
				}
			})
			answer, _ := io.ReadAll(conn) // the connection is closed in the middle
			took := time.Since(began)
			sending.Wait()
			require.NotContains(t, string(answer), "complete", name)
			require.GreaterOrEqual(t, took, tc.ends, name)
			require.Less(t, took, tc.ends+2*time.Second, "%s: net/http waits 0.5 s for the client to read an error", name)
		}

		conn := listener.dial()
		env.Must(io.WriteString(conn, strings.Replace(get, "/", "/large", 1)))(t)
		began := time.Now()
		require.ErrorIs(t, <-failed, os.ErrDeadlineExceeded, "the answer is not read")
		require.Equal(t, writeTimeout, time.Since(began))
		require.NoError(t, conn.Close())
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-stopped, http.ErrServerClosed)
	})
}

// TestEveryEndOfQueuedOrderIsPublished: buyers may wait for it at any server, also for the reason of an order that failed.
func TestEveryEndOfQueuedOrderIsPublished(t *testing.T) {
	t.Parallel()
	var workers queue.Config
	e := &Env{Parts: Parts{Workers: func(c *queue.Config) { workers = *c }}}
	settled := prometheus.NewCounterVec(prometheus.CounterOpts{}, []string{"outcome"})
	w := &wiring{env: e, backends: backends{metrics: &metrics{settled: settled}}}
	var moved []int64
	w.newWorkers(nil, nil, salestats.NewCounters(false), func(id int64) { moved = append(moved, id) })
	workers.Settled(domain.StreamEntry{
		Admissions: []domain.Admission{{OrderID: 1}, {OrderID: 2}, {OrderID: 3}, {OrderID: 4}},
		Ends:       []domain.End{{}, {Failed: domain.ReasonSoldOut}, {Dead: "poison"}, {Again: true}},
	})
	require.Equal(t, []int64{1, 2, 3}, moved)
}

// TestStart: Prometheus takes the first value of a series for what was there before, so a first rush would be no increase, and
// SeckillOrdersUnpaid would compare its unpaid orders with none. A server deletes the events of a receiver that it no longer has.
func TestStart(t *testing.T) {
	t.Parallel()
	store := env.Must(repo.OpenSQLite(env.SQLiteFile(t)))(t)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	rdb := openEmbedded(RedisInfo{Addr: env.StartMiniredis(t).Addr()})
	defer rdb.Close()
	e := &Env{Ctx: t.Context(), Config: Config{OrderLane: "batch", SMSCountries: []string{"CN"}}, Log: slog.New(slog.DiscardHandler)}
	b := backends{store: store, rdb: rdb, secrets: domain.ParseKeyring(strings.Repeat("s", 32)), metrics: newMetrics("batch", store, rdb)}

	var names []string
	for _, f := range env.Must(b.metrics.registry.Gather())(t) {
		names = append(names, f.GetName())
	}
	require.Contains(t, names, "seckill_order_seconds")

	w := env.Must(newWiring(e, b))(t)
	tasks := env.Must(w.tasks(env.Must(w.newParts())(t)))(t)
	for _, name := range []string{"delete old events of orders", "remove gates of ended sales"} {
		require.True(t, slices.ContainsFunc(tasks, func(t loop.Task) bool { return t.Name == name }), name)
	}
}

// failingOnce is a listener whose first connection finds no file descriptor.
type failingOnce struct {
	net.Listener
	failed atomic.Bool
}

func (l *failingOnce) Accept() (net.Conn, error) {
	if !l.failed.Swap(true) {
		return nil, syscall.EMFILE
	}
	return l.Listener.Accept()
}

// TestEmbeddedRedisOutlivesLackOfFiles: the embedded Redis accepts connections again when there are files again.
func TestEmbeddedRedisOutlivesLackOfFiles(t *testing.T) {
	t.Parallel()
	e, info, err := startEmbeddedRedis(t.TempDir())
	require.NoError(t, err)
	defer e.close()
	rdb := openEmbedded(info)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	require.NoError(t, rdb.Close())

	l := &failingOnce{Listener: env.Must(net.Listen("tcp", "127.0.0.1:0"))(t)}
	served, stopped := make(chan net.Conn, 1), make(chan struct{})
	go func() {
		defer close(stopped)
		serveAll(l, func(c net.Conn) { served <- c })
	}()
	conn := env.Must(net.Dial("tcp", l.Addr().String()))(t)
	require.NoError(t, (<-served).Close())
	require.NoError(t, conn.Close())
	require.NoError(t, l.Close())
	<-stopped
}
