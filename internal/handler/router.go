package handler

import (
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/kit/cache"
	"seckill/internal/kit/picture"
	"seckill/internal/kit/ratelimit"
	"seckill/internal/ops/alerts"
	"seckill/internal/ops/reconcile"
	"seckill/internal/ops/salestats"
	"seckill/internal/sale/entry"
	"seckill/internal/service"
)

// Config holds the dependencies and settings of the HTTP layer.
type Config struct {
	Auth        *auth.Service
	Vouchers    *service.Vouchers
	Orders      *service.Orders
	Search      *service.Search
	Entry       *entry.Service
	Payments    *service.Payments
	Subscribers *salestats.Subscribers
	DeadLetters *service.DeadLetters
	Alerts      func(context.Context) (alerts.Alerts, error)
	Store       Store
	Pictures    *picture.Service
	Keys        *service.Idempotency
	Reconciler  *reconcile.Reconciler
	// Counts the answers to buyers.
	Counters *salestats.Counters
	// Live statistics of sales.
	Monitor         *salestats.Monitor
	SaleSubscribers *salestats.Subscribers // of sales
	// The subscribers of the waiting rooms of sales.
	RoomSubscribers *salestats.Subscribers
	// The tracer of purchases; nil: no traces.
	Tracer trace.Tracer
	// Nil outside demo mode.
	Rush domain.Rusher
	// Checks of /readyz by dependency; may be nil.
	Ready   map[string]Check
	Metrics prometheus.Registerer
	Log     *slog.Logger
	Now     func() time.Time
	// Whether login codes are returned in the X-Demo-Code header.
	Demo bool
	// Whether requests are refused for names of other machines (localHosts).
	LocalHosts bool
	// Whether requests are limited per address, session or user (limit.go).
	RateLimit bool
	// Addresses and networks whose X-Forwarded-For, X-Forwarded-Proto and Forwarded are trusted; none by default.
	TrustedProxies []string
	// URI for reports of vulnerabilities, in /.well-known/security.txt; empty: no such file.
	SecurityContact string
	// The version of the program, in /healthz.
	Version string
	// The zone of times without a zone, which the hm-dianping pages use.
	Zone *time.Location
	// Authenticates the cursors of lists; the same on all servers.
	CursorKeys domain.Keyring

	// SharedLimits is the Redis of the limits that hold over all servers. Nil: there is only one server.
	SharedLimits *ratelimit.Shared

	// Pages are the HTML pages by pattern, served to GET. They set their own Content-Security-Policy and
	// Cache-Control. The URLs of their requests have the scheme of the browser. May be nil.
	Pages map[string]http.Handler
	// MissingPage answers browsers under unknown addresses outside /api. Nil: they receive the error that clients do.
	MissingPage http.Handler
}

// Store is what the handlers read and change without a service. Errors: those of its parts, and domain.ErrUnavailable.
type Store interface {
	domain.AuditStore
	domain.EventStore
	domain.NoticeStore
	domain.PersonalStore
	domain.ShopStore

	// ListPayments returns a page of the payments of all orders, newest first.
	ListPayments(ctx context.Context, p domain.Page) ([]domain.SalePayment, error)
	// PaidWith returns the references of the payments with which orders were paid, whatever became of them, by order id.
	PaidWith(ctx context.Context, orderIDs []int64) (map[int64]string, error)
}

//go:embed openapi.json
var openAPI []byte

// apiDocument is compressed beside the limit of compression, which lists of vouchers may use up, because that is done once.
var apiDocument = sync.OnceValue(func() *snapshot {
	d := newSnapshot(part{json: openAPI})
	d.zip(time.Time{})
	return d
})

// New returns the handler of the public port. It panics if its metrics are registered already.
func New(cfg Config) http.Handler {
	return answerHead(identifyClient(newRouter(cfg), ParseProxies(cfg.TrustedProxies), cfg.Log))
}

func newRouter(cfg Config) *gin.Engine {
	engine := newEngine()
	a := newAPI(cfg)
	hm := newHmdp(a)
	engine.Use(requestID, a.errors.observe(cfg.Metrics), a.errors.recovery(), a.limits.delay, setSecureHeaders, refuseCrossOrigin(a.errors, hm),
		a.errors.wrap(checkQuery))
	if cfg.LocalHosts {
		engine.Use(a.errors.wrap(localHosts))
	}

	purchases := gin.HandlersChain{traceRequests(cfg.Tracer), countAnswers(cfg.Counters)}
	r := newRoutes(engine, a)
	r.pages()
	r.sales(purchases)
	r.streams()
	r.files()

	v1 := engine.Group("/api/v1", strictTransport, withTimeout(answerTimeout), r.limitBody)
	r.accounts(v1)
	r.orders(v1)
	r.adminVouchers(v1)
	r.adminOrders(v1)
	r.operations(v1)
	r.hmdp(hm, purchases)

	return engine
}

// api is what the handlers of all resources share.
type api struct {
	Config

	errors *errorWriter
	limits *limits
	staff  *staff
	// The answers about vouchers, by id, and about lists of them, by filter.
	shown, lists snapshots
	// Those about shops, for writeCached.
	answers *cache.Cache[any, *snapshot]
	// Bound the reads of exports and of CSV files.
	exportReads, fileReads *semaphore.Weighted
}

func newAPI(cfg Config) *api {
	limits := newLimits(cfg.RateLimit, cfg.Now, cfg.SharedLimits)

	a := &api{
		Config: cfg,
		errors: &errorWriter{
			log:         cfg.Log,
			security:    newSecurityLog(cfg.Metrics, cfg.Log),
			unavailable: &rate.Sometimes{Interval: time.Second},
		},
		limits:      limits,
		shown:       newSnapshots(),
		lists:       newSnapshots(),
		answers:     newAnswers(),
		exportReads: semaphore.NewWeighted(maxExports),
		fileReads:   semaphore.NewWeighted(maxFiles),
	}

	a.staff = &staff{
		api:    a,
		reads:  ratelimit.NewQuota("audit", cfg.Now, nil),
		failed: rate.Sometimes{Interval: time.Second},
	}
	return a
}

func newEngine() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()

	// gin would believe these headers whoever sends them. identifyClient has read them already.
	r.ForwardedByClientIP = false

	// Gin's redirect lacks the security headers; answer 404.
	r.RedirectTrailingSlash = false
	r.HandleMethodNotAllowed = true
	return r
}

// routes registers the routes. Every POST that changes stored data supports Idempotency-Key, except authentication and
// reconciliation, which is idempotent. The keys of orders are stored with the orders.
type routes struct {
	*api
	engine *gin.Engine

	limitBody gin.HandlerFunc
	// Limits reads of the database, so that purchases take precedence.
	reads gin.HandlerFunc
	// Refuse requests without a valid access token. user counts the others as reads or changes of a few rows, and the routes
	// with identified have a limit of their own.
	identified, user gin.HandlerFunc
	// Counts requests that store rows.
	row gin.HandlerFunc

	// Refuse users without a permission.
	read, redeem, operate, phones, administer gin.HandlerFunc
}

func newRoutes(engine *gin.Engine, a *api) *routes {
	permit := func(p domain.Permission) gin.HandlerFunc { return a.staff.permit(p, a.require, a.errors.write) }

	return &routes{
		api:        a,
		engine:     engine,
		limitBody:  a.errors.wrap(limitBody),
		reads:      limitConcurrency(maxReads, a.errors.write),
		identified: a.errors.wrap(a.require),
		user:       a.errors.wrap(a.limits.tokens(1, a.require)),
		row:        a.errors.wrap(a.limits.row),
		read:       permit(domain.MayRead),
		redeem:     permit(domain.MayRedeem),
		operate:    permit(domain.MayOperate),
		phones:     permit(domain.MaySeePhones),
		administer: permit(domain.MayAdminister),
	}
}

// tokens is user for larger requests: five tokens for a list of up to a hundred rows, and twenty for a whole sale or table.
func (r *routes) tokens(n int) gin.HandlerFunc { return r.errors.wrap(r.limits.tokens(n, r.require)) }

func (r *routes) pages() {
	wrap := r.errors.wrap

	r.engine.NoRoute(wrap(func(c *gin.Context) error {
		if r.MissingPage == nil || !wantsPage(c.Request) {
			return domain.ErrNotFound
		}

		r.MissingPage.ServeHTTP(c.Writer, c.Request)

		// Gin writes a text of its own if nothing was written, as for HEAD.
		c.Writer.WriteHeaderNow()
		return nil
	}))
	r.engine.NoMethod(wrap(refuseMethod))

	for pattern, page := range r.Pages {
		r.engine.GET(pattern, strictTransport, gin.WrapH(page))
	}

	if r.SecurityContact != "" {
		r.engine.GET("/.well-known/security.txt", securityTxt(r.SecurityContact, r.Now))
	}

	r.engine.GET("/healthz", wrap(r.health))
	r.engine.GET("/readyz", wrap(ready(r.Ready)))
}

// sales registers the routes of buyers in a sale, which are answered from memory but for the purchase. purchases is the
// middleware of a purchase.
func (r *routes) sales(purchases gin.HandlersChain) {
	wrap := r.errors.wrap

	// The service has its own timeout for a purchase, so the hot route needs no second timer.
	r.engine.Group("", purchases...).POST("/api/v1/vouchers/:id/orders", r.limitBody, r.identified, wrap(perUser(r.limits.orders)), wrap(r.placeOrder))

	// Passes and places in a waiting room come from memory; package entry bounds the rest.
	r.engine.POST("/api/v1/vouchers/:id/entry", r.limitBody, r.identified, wrap(perUser(r.limits.entries)), wrap(byID(r.enterSale)))
	r.engine.GET("/api/v1/vouchers/:id/entry", r.limitBody, r.identified, wrap(perUser(r.limits.polls)), wrap(byID(r.showEntry)))
	r.engine.DELETE("/api/v1/vouchers/:id/entry", r.limitBody, r.identified, r.row, wrap(perUser(r.limits.polls)), wrap(byID(r.leaveEntry)))

	// Vouchers come from memory; the service bounds the reads that fill it.
	r.engine.GET("/api/v1/vouchers", r.limitBody, wrap(r.listVouchers))
	r.engine.GET("/api/v1/vouchers/:id", r.limitBody, wrap(byID(r.showVoucher)))
}

func (r *routes) streams() {
	wrap := r.errors.wrap

	r.engine.GET("/api/v1/orders/:id/events", r.user, wrap(byID(r.orderStream)))
	r.engine.GET("/api/v1/vouchers/:id/entry/events", r.identified, wrap(perUser(r.limits.polls)), wrap(byID(r.entryEvents)))
	r.engine.GET("/api/v1/admin/vouchers/:id/events", r.read, wrap(byID(r.statsEvents)))
}

func (r *routes) files() {
	wrap := r.errors.wrap

	r.engine.GET("/api/v1/me/export", withTimeout(exportTimeout), r.limitBody, r.user, wrap(r.limits.export), wrap(r.exportMe))
	r.engine.POST("/api/v1/admin/images", strictTransport, withTimeout(uploadTimeout), r.operate, limitConcurrency(maxUploads, r.errors.write),
		wrap(r.uploadImage))

	files := r.engine.Group("/api/v1/admin", strictTransport, withTimeout(fileTimeout), r.limitBody, r.tokens(20), r.read)
	files.GET("/orders.csv", wrap(r.orderFile))
	files.GET("/payments.csv", wrap(r.paymentFile))
	files.GET("/audit.csv", wrap(r.auditFile))
}

func (r *routes) accounts(v1 *gin.RouterGroup) {
	wrap := r.errors.wrap

	v1.GET("/openapi.json", func(c *gin.Context) { apiDocument().write(c, r.Now()) })

	v1.POST("/auth/code", wrap(r.sendCode))
	v1.POST("/auth/login", wrap(r.login))
	v1.POST("/auth/refresh", wrap(r.refresh))
	v1.POST("/auth/logout", r.user, wrap(r.logout))
	v1.POST("/auth/logout-all", r.user, wrap(r.logoutAll))

	v1.GET("/me", r.user, r.reads, wrap(r.me))
	v1.DELETE("/me", r.user, wrap(r.erase))

	v1.GET("/images/:hash", wrap(r.showImage))
	v1.GET("/shops", r.reads, wrap(r.listShops))
	v1.GET("/shops/:id", r.reads, wrap(byID(r.showShop)))
	v1.POST("/admin/shops", r.operate, r.once(r.createShop))
	v1.PATCH("/admin/shops/:id", r.operate, wrap(byID(r.changeShop)))
}

func (r *routes) orders(v1 *gin.RouterGroup) {
	wrap := r.errors.wrap

	v1.GET("/orders", r.tokens(5), r.reads, wrap(r.listOrders))
	v1.GET("/orders/:id", r.user, r.reads, wrap(byID(r.showOrder)))
	v1.POST("/orders/:id/cancel", r.user, r.row, r.once(moved(buyerOf, r.Orders.Cancel)))
	v1.POST("/orders/:id/pay", r.user, r.row, r.once(keyedByID(r.pay)))
	v1.POST("/orders/:id/refund", r.user, r.row, r.once(moved(buyerOf, r.Payments.Refund)))
	v1.GET("/orders/:id/payments", r.user, r.reads, wrap(byID(r.listPayments)))

	// Its bodies are larger than those of v1.
	r.engine.POST("/api/v1/payments/webhook/:provider", strictTransport, withTimeout(answerTimeout), wrap(r.paymentNotice))
}

func (r *routes) adminVouchers(v1 *gin.RouterGroup) {
	wrap := r.errors.wrap

	v1.GET("/admin/vouchers", r.read, wrap(r.browseVouchers))
	v1.POST("/admin/vouchers", r.operate, r.once(r.createVoucher))
	v1.PATCH("/admin/vouchers/:id", r.operate, wrap(byID(r.changeVoucher)))
	v1.DELETE("/admin/vouchers/:id", r.operate, wrap(byID(r.deleteVoucher)))
	v1.GET("/admin/vouchers/:id/checklist", r.read, wrap(byID(r.checklist)))
	v1.POST("/admin/vouchers/:id/publish", r.operate, r.once(keyedByID(r.publish)))
	v1.GET("/admin/vouchers/:id/stats", r.read, wrap(byID(r.showStats)))
	v1.POST("/admin/vouchers/:id/stock", r.operate, r.once(keyedByID(r.changeStock)))
	v1.POST("/admin/vouchers/:id/room", r.operate, r.once(keyedByID(r.changeRoom)))
	v1.POST("/admin/vouchers/:id/refunds", r.operate, r.once(keyedByID(r.refundAll)))
	v1.GET("/admin/vouchers/:id/refunds", r.tokens(20), r.read, wrap(byID(r.showRefundable)))
}

func (r *routes) adminOrders(v1 *gin.RouterGroup) {
	wrap := r.errors.wrap

	v1.GET("/admin/orders", r.tokens(5), r.read, wrap(r.listAllOrders))
	v1.GET("/admin/orders/:id", r.read, wrap(r.showFoundOrder))
	v1.GET("/admin/orders/:id/phone", r.phones, wrap(r.showPhone))
	v1.POST("/admin/orders/search", r.tokens(5), r.phones, wrap(r.searchOrders))
	v1.POST("/admin/orders/:id/cancel", r.operate, r.once(moved(adminOf, r.Orders.Cancel)))
	v1.POST("/admin/orders/:id/refund", r.operate, r.once(moved(adminOf, r.Payments.Refund)))
	v1.POST("/admin/orders/:id/return-outside", r.operate, r.once(keyedByID(r.returnOutside)))
	v1.POST("/admin/orders/:id/redeem", r.operate, r.once(keyedByID(r.redeemOrder)))
	v1.POST("/admin/orders/:id/undo-redeem", r.operate, r.once(keyedByID(r.undoRedeem)))

	v1.POST("/admin/redeem/preview", r.tokens(5), r.redeem, wrap(r.previewCode))
	v1.POST("/admin/redeem", r.redeem, r.once(r.redeemCode))
	v1.POST("/admin/redeem/undo", r.redeem, r.once(r.undoRedeemCode))
}

func (r *routes) operations(v1 *gin.RouterGroup) {
	wrap := r.errors.wrap

	v1.GET("/admin/audit", r.tokens(5), r.read, wrap(r.auditLog))
	v1.GET("/admin/alerts", r.read, wrap(r.listAlerts))
	v1.GET("/admin/dead-letters", r.tokens(5), r.read, wrap(r.listDeadLetters))
	v1.POST("/admin/dead-letters/:id/replay", r.operate, r.once(r.replayDeadLetter))
	v1.POST("/admin/dead-letters/:id/discard", r.operate, r.once(r.discardDeadLetter))
	v1.GET("/admin/payment-notices", r.read, wrap(r.listNotices))
	v1.POST("/admin/payment-notices/:id/close", r.operate, r.once(keyedByID(r.closeNotice)))
	v1.GET("/admin/events", r.read, wrap(r.listOrderEvents))
	v1.POST("/admin/events/:id/repeat", r.operate, r.once(keyedByID(r.repeatOrderEvent)))
	v1.GET("/admin/reconcile", r.tokens(20), r.read, wrap(r.reportFindings))
	v1.POST("/admin/reconcile", r.tokens(20), r.administer, wrap(r.repairFindings))
	v1.POST("/admin/rush", r.administer, wrap(r.requireDemo), r.once(r.startRush))
	v1.GET("/admin/rush", r.administer, wrap(r.requireDemo), wrap(r.showRush))
	v1.DELETE("/admin/rush", r.administer, wrap(r.requireDemo), wrap(r.stopRush))
}

// refuseMethod answers a method that a path does not have. gin has set Allow to the others.
func refuseMethod(c *gin.Context) error {
	allow := c.Writer.Header().Get("Allow")
	if strings.Contains(allow, http.MethodGet) {
		c.Header("Allow", allow+", "+http.MethodHead)
	}
	return errMethodNotAllowed
}

func wantsPage(r *http.Request) bool {
	return r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/api/") &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}
