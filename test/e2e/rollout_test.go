package e2e

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// minRequests is the least number of requests for each way of connecting.
const minRequests = 900

// readinessProxy is a reverse proxy that sends requests to the servers whose /readyz answers 200, in turn. It repeats
// nothing: a request that a server breaks is a 502, and counted.
type readinessProxy struct {
	*httputil.ReverseProxy

	servers []*url.URL
	ready   []atomic.Bool
	next    atomic.Uint64
	broken  atomic.Int64
}

// newReadinessProxy starts a proxy for servers at the given URLs and returns its URL.
func newReadinessProxy(t *testing.T, servers []string) (*readinessProxy, string) {
	t.Helper()
	p := &readinessProxy{ready: make([]atomic.Bool, len(servers))}
	for _, s := range servers {
		p.servers = append(p.servers, env.Must(url.Parse(s))(t))
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	p.ReverseProxy = &httputil.ReverseProxy{
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			connections := 0
			res, err := transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) { connections++ },
			})))
			if connections > 1 && err == nil { // net/http repeats requests with an Idempotency-Key on its own
				_ = res.Body.Close()
				err = errors.New("the first connection broke")
			}
			return res, err
		}),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(p.pick()) },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				p.broken.Add(1)
				t.Logf("proxy: %v", err)
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	var probes sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	for i, s := range servers {
		probes.Go(func() { p.probe(ctx, i, s+"/readyz") })
	}
	front := httptest.NewServer(p)
	t.Cleanup(func() { stop(); probes.Wait(); front.Close() })
	return p, front.URL
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// probe updates the readiness of server i until ctx ends.
func (p *readinessProxy) probe(ctx context.Context, i int, readyz string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, readyz, nil)
		if err != nil {
			return
		}
		res, err := client.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		p.ready[i].Store(err == nil && res.StatusCode == http.StatusOK)
		time.Sleep(100 * time.Millisecond)
	}
}

// pick returns the next ready server, or any if none is ready.
func (p *readinessProxy) pick() *url.URL {
	n := uint64(len(p.servers))
	for range n {
		if i := p.next.Add(1) % n; p.ready[i].Load() {
			return p.servers[i]
		}
	}
	return p.servers[p.next.Add(1)%n]
}

// orderers place orders through one client until they are stopped.
type orderers struct {
	client   *http.Client
	base     string // URL of a server or proxy
	sale     string
	tokens   []string
	requests atomic.Int64
	mu       sync.Mutex
	failures []string
}

// run places orders until ctx ends and returns when the last is answered. Order n is that of user n; later ones repeat
// the requests, with the same keys.
func (o *orderers) run(ctx context.Context, parallel int) {
	var running sync.WaitGroup
	for range parallel {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := o.place(int(o.requests.Add(1)) % len(o.tokens)); err != nil {
					o.mu.Lock()
					o.failures = append(o.failures, err.Error())
					o.mu.Unlock()
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	running.Wait()
}

// slowAnswer is the time after which a 503 may be the answer of a sound server on a busy machine.
const slowAnswer = time.Second

// place places the order of a user. It repeats a request that is answered 503 after slowAnswer, up to three times.
func (o *orderers) place(user int) error {
	purchase := rig.Purchase(o.sale, o.tokens[user]).Keyed("rollout-" + strconv.Itoa(user))
	for try := 1; ; try++ {
		start := time.Now()
		a, err := rig.SendBy(context.Background(), o.client, o.base, purchase) // every request is answered
		switch {
		case err != nil || a.Success():
			return err
		case try == 4 || time.Since(start) < slowAnswer || !a.Busy():
			return fmt.Errorf("%d %s", a.Status, a.Text)
		}
	}
}

// TestRollingRestarts restarts three servers one after the other while orders arrive in three ways, through a proxy that follows
// /readyz: over keep-alive and over fresh connections, and over one connection of HTTP/2, which has no Connection: close and so
// lasts. No request breaks, every stream of a draining server ends in order, and the next one continues it.
func TestRollingRestarts(t *testing.T) {
	env.FullParallel(t)
	for _, lane := range rig.LockAndQueue {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			rollingRestarts(t, rig.RealStack(t).In(lane).With("SECKILL_DRAIN=5s"))
		})
	}
}

func rollingRestarts(t *testing.T, s *rig.Stack) {
	t.Helper()
	servers, urls := make([]*rig.Server, 3), make([]string, 3)
	for i := range servers {
		servers[i] = s.Spawn(t, env.FreeAddr(t))
		urls[i] = servers[i].URL
	}
	sale := servers[0].Sale(t, 10_000)
	tokens := s.Tokens(t, 1501) // fewer than requests, so that all are used
	proxy, front := newReadinessProxy(t, urls)
	rig.Eventually(t, "the proxy has found all servers", func() bool {
		return proxy.ready[0].Load() && proxy.ready[1].Load() && proxy.ready[2].Load()
	})
	http2, client, connections := http2Client(t, proxy)
	kept, fresh := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	t.Cleanup(kept.CloseIdleConnections)
	ways := map[string]*orderers{
		"kept connections":  {client: kept, base: front, sale: sale, tokens: tokens[:500]},
		"fresh connections": {client: fresh, base: front, sale: sale, tokens: tokens[500:1000]},
		"HTTP/2":            {client: client, base: http2, sale: sale, tokens: tokens[1000:1500]},
	}
	buyer := tokens[1500]
	order := servers[0].Buy(t, buyer, sale)
	stream := &orderStream{client: client, url: http2, request: rig.Get("/orders/"+order+"/events", buyer)}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	require.NoError(t, ways["HTTP/2"].place(0)) // opens the connection
	for _, o := range ways {
		running.Go(func() { o.run(ctx, 8) })
	}
	running.Go(func() { stream.follow(ctx) })
	for i, p := range servers {
		require.Zero(t, p.Stop(t))
		servers[i] = s.Spawn(t, strings.TrimPrefix(p.URL, "http://"))
		servers[i].RequireReady(t)
		rig.Eventually(t, "the proxy has found the server", func() bool { return proxy.ready[i].Load() })
	}
	for way, o := range ways {
		rig.Eventually(t, "enough requests over "+way, func() bool { return o.requests.Load() >= minRequests })
	}
	servers[0].MustCancel(t, buyer, order)
	rig.Eventually(t, "the stream has the last state", stream.cancelled.Load)
	stop()
	running.Wait()
	for way, o := range ways {
		t.Logf("%d requests over %s", o.requests.Load(), way)
		require.Empty(t, o.failures, way)
	}
	require.Zero(t, proxy.broken.Load())
	require.EqualValues(t, 1, connections.Load())
	require.Empty(t, stream.failure.Load())
	require.Greater(t, stream.opened.Load(), int64(1), "the stream was continued at another server")
	rig.RequireSettled(t, s)
	s.Verify(t)
	require.EqualValues(t, len(tokens), s.Count(t, "SELECT COUNT(*) FROM voucher_orders WHERE voucher_id = "+sale))
}

// http2Client starts a server of TLS and HTTP/2 in front of a proxy, and returns its URL, a client that accepts nothing else, and the
// number of its connections.
func http2Client(t *testing.T, proxy http.Handler) (url string, client *http.Client, connections *atomic.Int64) {
	t.Helper()
	front := httptest.NewUnstartedServer(proxy)
	front.EnableHTTP2 = true
	front.StartTLS()
	t.Cleanup(front.Close)

	connections = &atomic.Int64{}
	trace := &httptrace.ClientTrace{TLSHandshakeStart: func() { connections.Add(1) }}
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := front.Client().Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
		if err == nil && res.ProtoMajor != 2 {
			_ = res.Body.Close()
			err = errors.New("not HTTP/2: " + res.Proto)
		}
		return res, err
	})
	return front.URL, &http.Client{Transport: transport}, connections
}

// orderStream follows the states of an order.
type orderStream struct {
	client    *http.Client
	url       string
	request   rig.Request
	opened    atomic.Int64
	cancelled atomic.Bool
	failure   atomic.Value // the first text of an error
}

// follow reads the stream to its end, again and again, until the order is cancelled or ctx ends.
func (s *orderStream) follow(ctx context.Context) {
	s.failure.Store("")
	for ctx.Err() == nil && !s.cancelled.Load() {
		a, err := rig.SendBy(ctx, s.client, s.url, s.request)
		if ctx.Err() == nil && (err != nil || a.Status != http.StatusOK) {
			s.failure.CompareAndSwap("", fmt.Sprint(a.Status, err))
		}
		s.opened.Add(1)
		s.cancelled.Store(strings.Contains(a.Text, `"status":"cancelled"`))
	}
}

// TestSecondSignalEndsTheDrain: the first SIGTERM turns /readyz red and nothing else, the second one ends the process. A closed
// terminal sends SIGHUP more than once, which ends no drain.
func TestSecondSignalEndsTheDrain(t *testing.T) {
	env.FullParallel(t)
	s := rig.EmbeddedStack(t).With("SECKILL_DRAIN=1h")
	p := s.Spawn(t, "")
	sale, token := p.Sale(t, 1), s.Tokens(t, 1)[0]
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGTERM))
	rig.Eventually(t, "/readyz is red", func() bool { return rig.Fetch(t, p.URL+"/readyz").Status == http.StatusServiceUnavailable })
	require.Contains(t, rig.Fetch(t, p.URL+"/readyz").Text, "not ready: shutdown")
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGHUP))
	require.Equal(t, http.StatusOK, rig.Fetch(t, p.URL+"/healthz").Status)
	p.Must(t, rig.Purchase(sale, token))
	rig.Eventually(t, "the process ends", func() bool {
		_ = p.Cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.Done:
			return true
		default:
			return false
		}
	})
	require.Equal(t, -1, p.Cmd.ProcessState.ExitCode(), "ended by the signal")
}

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
	for statement := range strings.SplitSeq(strings.TrimSpace(previousSchema), ";\n") {
		s.Exec(t, statement)
	}
	s.Exec(t, "UPDATE seckill_vouchers SET initial_stock = initial_stock - 800, stock = stock - 800 WHERE voucher_id = "+previousSale)
	s.Exec(t, "UPDATE voucher_orders SET created_at = UTC_TIMESTAMP(3)") // a key ends after domain.KeyLife
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
	addrs := []string{env.FreeAddr(t), env.FreeAddr(t)}
	servers := make([]*rig.Server, len(addrs))
	concurrently(len(servers), func(i int) { servers[i] = s.Spawn(t, addrs[i]) })
	before := bought.Load()
	close(started)
	rig.Eventually(t, "the previous version buys beside the servers", func() bool { return bought.Load() > before })
	c := rig.BuyersOf(previousSale, previousStock, s.Tokens(t, 300), servers...)
	c.For = time.Second // the previous version buys meanwhile
	r := c.Run(t.Context())
	previous.Wait()
	require.Positive(t, r.Codes["ok"])
	rig.RequireStock(t, servers[0].Client, previousSale, 0)
	require.EqualValues(t, previousStock+2, s.Count(t, "SELECT COUNT(*) FROM voucher_orders WHERE slot IS NOT NULL AND voucher_id = "+previousSale))
	// A sale that the previous version publishes.
	s.Exec(t, "INSERT INTO seckill_vouchers (voucher_id, initial_stock, stock, begin_at, end_at, limit_per_user, "+
		"created_at, updated_at, entry_mode, pass_ttl, entry_epoch, pay_timeout, unpaid_limit, entry_challenge, entry_opens_at, entry_rate, "+
		"entry_paused, entry_message) VALUES (1, 1, 1, NOW(3), '2099-01-01', 1, NOW(3), NOW(3), 0, 10, 0, NULL, NULL, 0, NULL, 100, 0, '')")
	s.Verify(t)

	tokens := env.Must(auth.NewTokens(domain.NewKeyring([]byte(rig.TestSecret)), time.Now))(t)
	token := env.Must(tokens.Access(auth.Identity{UserID: previousUser, SessionID: auth.NewSessionID(), Role: domain.RoleBuyer}, time.Minute))(t)
	again := servers[0].Do(t, rig.Purchase(previousSale, token).Keyed(previousKey))
	require.Equal(t, previousOrder, again.Order(), "the key of an order of the previous version: %s", again.Text)
	require.EqualValues(t, 1, s.Count(t, "SELECT COUNT(*) FROM voucher_orders WHERE user_id = 2"))
	require.EqualValues(t, 1, s.Count(t, "SELECT COUNT(*) FROM voucher_orders WHERE status = 2 AND id = "+previousOrder))
}

// The tag of the last release. There is none yet, so this is a commit with an older schema.
const previousVersion = "2691b2b772e8"

// previousBinary builds the version before from the history of this checkout.
func previousBinary(t *testing.T) string {
	t.Helper()
	if err := exec.Command("git", "-C", root, "cat-file", "-e", previousVersion+"^{commit}").Run(); err != nil {
		env.Missing(t, "a checkout without history: no commit "+previousVersion)
	}
	source, binary := t.TempDir(), filepath.Join(t.TempDir(), "previous")
	build := exec.Command("bash", "-euo", "pipefail", "-c",
		`git -C "$1" archive "$2" | tar -x -C "$3"; cd "$3"; go build -o "$4" ./cmd/seckill`, "build", root, previousVersion, source, binary)
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return binary
}

// TestPreviousVersionInMidRush starts a server of this version beside one of the version before, in mid-rush. It changes the
// schema, and both sell. The older one can be started again on the new schema, with its logins and keys.
func TestPreviousVersionInMidRush(t *testing.T) {
	env.FullParallel(t)
	binary := previousBinary(t)
	for _, lane := range rig.LockAndQueue {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s := rig.RealStack(t).OnEmptyDatabase(t).In(lane)
			older := s.With()
			older.Binary = binary
			before := older.Spawn(t, "")
			code, out := older.RunProcess(t, "seed", "--users", "1001", "--tokens", "-")
			require.Zero(t, code, out)
			var tokens []string
			for _, m := range regexp.MustCompile(`(?m)^\d+,(\S+)$`).FindAllStringSubmatch(out, -1) {
				tokens = append(tokens, m[1])
			}
			sale, keyed := before.Sale(t, 800), rig.Purchase(before.Sale(t, 1), tokens[1000]).Keyed("before")
			order := before.Do(t, keyed).Order()
			refresh := before.LogIn(t, rig.NewPhone())["refresh_token"]

			c := rig.BuyersOf(sale, 800, tokens[:1000], before)
			require.Contains(t, s.Exits(t, 0, "migrate", "status"), "pending", "the version before has an older schema")
			rest := rig.LongRush(t, s, c, 5*time.Second)
			left := s.StockOf(t, sale)
			after := s.Spawn(t, "")
			require.Less(t, s.StockOf(t, sale), left, "in mid-rush")
			c.Clients = append(c.Clients, after.Client)
			rig.RequireAllServed(t, s, c, rest())

			require.Zero(t, before.Stop(t))
			for _, p := range []*rig.Server{after, older.Spawn(t, "")} {
				require.Equal(t, order, p.Do(t, keyed).Order())
				refresh = p.Must(t, rig.Post("/auth/refresh", "", map[string]any{"refresh_token": refresh}))["refresh_token"]
				p.Buy(t, tokens[1000], p.Sale(t, 1))
			}
			rig.RequireSettled(t, s)
			s.Verify(t)
		})
	}
}

// TestUpgradeOfEmbeddedServer starts a server on a data directory whose schema is that of version 25, in the middle of a
// sale: it changes the schema, keeps orders, keys and logins, and sells the rest.
func TestUpgradeOfEmbeddedServer(t *testing.T) {
	rig.Core("lock/embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		old := s.Serve(t)
		sale, tokens := old.Sale(t, 20), s.Tokens(t, 40)
		refresh := old.LogIn(t, rig.NewPhone())["refresh_token"]
		keyed := rig.Purchase(sale, tokens[0]).Keyed("before")
		first := old.Do(t, keyed)
		cancelled := old.Buy(t, tokens[1], sale)
		old.MustCancel(t, tokens[1], cancelled)
		for _, token := range tokens[2:10] {
			old.Buy(t, token, sale)
		}
		require.Zero(t, old.Stop(t))
		for !strings.Contains(s.Exits(t, 0, "migrate", "down"), "rolled back 00027") {
		}

		p := s.Serve(t)
		require.Equal(t, first.Order(), p.Do(t, keyed).Order(), "the key has its order")
		require.Equal(t, "cancelled", env.Must(p.Order(t.Context(), tokens[1], cancelled))(t).Status)
		p.Must(t, rig.Post("/auth/refresh", "", map[string]any{"refresh_token": refresh}))

		c := rig.BuyersOf(sale, 20, tokens, p)
		rig.RequireAllServed(t, s, c, c.Run(t.Context()))
		require.NotContains(t, s.Exits(t, 0, "migrate", "status"), "pending")
	})
}
