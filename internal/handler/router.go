package handler

import (
	"cmp"
	_ "embed"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/entry"
	"seckill/internal/picture"
	"seckill/internal/ratelimit"
	"seckill/internal/reconcile"
	"seckill/internal/salestats"
	"seckill/internal/service"
)

// Config holds the dependencies and settings of the HTTP layer.
type Config struct {
	Auth            *auth.Service
	Vouchers        *service.Vouchers
	Orders          *service.Orders
	Search          *service.Search
	Entry           *entry.Service
	Payments        *service.Payments
	Subscribers     *salestats.Subscribers
	DeadLetters     *service.DeadLetters
	Events          domain.EventStore
	Failures        Failures
	Notices         domain.NoticeStore
	Shops           domain.ShopStore
	Pictures        *picture.Service
	Drafts          *service.Publishing
	AuditLog        domain.AuditStore
	Personal        domain.PersonalStore
	PaymentList     PaymentLister
	Keys            *service.Idempotency
	Reconciler      *reconcile.Reconciler
	Counters        *salestats.Counters    // counts the answers to buyers; nil: no counts
	Monitor         *salestats.Monitor     // live statistics of sales
	SaleSubscribers *salestats.Subscribers // of sales
	RoomSubscribers *salestats.Subscribers // of the waiting rooms of sales
	Tracer          trace.Tracer           // of purchases; nil: no traces
	LostAfter       time.Duration          // absence of a queued order after which its stream reports it as failed; default 30 s
	Rush            domain.Rusher          // nil outside demo mode
	Ready           map[string]Check       // checks of /readyz by dependency; may be nil
	Metrics         prometheus.Registerer
	Log             *slog.Logger
	Now             func() time.Time
	Demo            bool           // return login codes in the X-Demo-Code header
	LocalHosts      bool           // refuse requests for names of other machines (localHosts)
	RateLimit       bool           // limit requests per address, session or user (limit.go)
	TrustedProxies  []string       // addresses and networks whose X-Forwarded-For and -Proto are trusted; none by default
	SecurityContact string         // URI for reports of vulnerabilities, in /.well-known/security.txt; empty: no such file
	Zone            *time.Location // of times without a zone, which the hm-dianping pages use
	CursorKeys      domain.Keyring // authenticate the cursors of lists; the same on all servers

	// SharedLimits is the Redis of the limits that hold over all servers. Nil: there is only one server.
	SharedLimits *ratelimit.Shared

	// Pages are the HTML pages by pattern, served to GET. They set their own Content-Security-Policy and
	// Cache-Control. The URLs of their requests have the scheme of the browser. May be nil.
	Pages map[string]http.Handler
	// MissingPage answers browsers under unknown addresses outside /api. Nil: they receive the error that clients do.
	MissingPage http.Handler
}

//go:embed openapi.json
var openAPI []byte

// New returns the handler of the public port. Errors: an invalid trusted proxy, or metrics that are registered already.
func New(cfg Config) (http.Handler, error) {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.RemoteIPHeaders = []string{forwardedForHeader} // not X-Real-IP, which a proxy may pass on from a client
	r.RedirectTrailingSlash = false                  // gin's redirect lacks the security headers; answer 404
	if err := r.SetTrustedProxies(cfg.TrustedProxies); err != nil {
		return nil, fmt.Errorf("trusted proxies: %w", err)
	}
	security, err := newSecurityLog(cfg.Metrics, cfg.Log)
	if err != nil {
		return nil, err
	}
	e := &errorWriter{log: cfg.Log, security: security, unavailable: &rate.Sometimes{Interval: time.Second}}
	limits := newLimits(cfg.RateLimit, cfg.Now, cfg.SharedLimits)
	press := gin.HandlersChain{traceRequests(cfg.Tracer), countAnswers(cfg.Counters)}
	h := newHandlers(cfg, e, limits)
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	// Every POST that changes stored data supports Idempotency-Key, except authentication and reconciliation, which is
	// idempotent. The keys of orders are stored with the orders.
	user := h.auth.require
	read, redeem, operate := h.permit(domain.MayRead, e), h.permit(domain.MayRedeem, e), h.permit(domain.MayOperate, e)
	phones, administer := h.permit(domain.MaySeePhones, e), h.permit(domain.MayAdminister, e)

	r.Use(requestID, e.observe(metrics), e.recovery(), limits.delay, secureHeaders, refuseCrossOrigin(e, h.hmdp))
	if cfg.LocalHosts {
		r.Use(e.wrap(localHosts))
	}
	r.NoRoute(e.wrap(func(c *gin.Context) error {
		if cfg.MissingPage == nil || !wantsPage(c.Request) {
			return domain.ErrNotFound
		}
		cfg.MissingPage.ServeHTTP(c.Writer, c.Request)
		c.Writer.WriteHeaderNow() // gin writes a text of its own if nothing was written, as for HEAD
		return nil
	}))

	r.HandleMethodNotAllowed = true
	r.NoMethod(e.wrap(refuseMethod))

	for pattern, page := range cfg.Pages {
		r.GET(pattern, h.auth.strictTransport, h.auth.setScheme, gin.WrapH(page))
	}
	if cfg.SecurityContact != "" {
		r.GET("/.well-known/security.txt", securityTxt(cfg.SecurityContact, cfg.Now))
	}
	r.GET("/healthz", e.wrap(health))
	r.GET("/readyz", e.wrap(ready(cfg.Ready)))

	// The service has its own timeout for a purchase, so the hot route needs no second timer.
	r.Group("", press...).POST("/api/v1/vouchers/:id/orders", e.wrap(limitBody), e.wrap(user), e.wrap(limits.orders), e.wrap(h.orders.place))

	// Passes and places in a waiting room come from memory; package entry bounds the rest.
	r.POST("/api/v1/vouchers/:id/entry", e.wrap(limitBody), e.wrap(user), e.wrap(limits.entries), e.wrap(h.entry.enter))
	r.GET("/api/v1/vouchers/:id/entry", e.wrap(limitBody), e.wrap(user), e.wrap(limits.polls), e.wrap(h.entry.ask))
	r.DELETE("/api/v1/vouchers/:id/entry", e.wrap(limitBody), e.wrap(user), e.wrap(limits.polls), e.wrap(h.entry.leave))

	// Vouchers come from memory; the service bounds the reads that fill it.
	r.GET("/api/v1/vouchers", e.wrap(limitBody), e.wrap(h.vouchers.list))
	r.GET("/api/v1/vouchers/:id", e.wrap(limitBody), e.wrap(h.vouchers.show))

	// Streams have no timeout.
	r.GET("/api/v1/orders/:id/events", e.wrap(user), e.wrap(h.events.order))
	r.GET("/api/v1/vouchers/:id/entry/events", e.wrap(user), e.wrap(limits.polls), e.wrap(h.entry.events))
	r.GET("/api/v1/admin/vouchers/:id/events", read, e.wrap(h.stats.events))

	// An export takes longer than other answers.
	r.GET("/api/v1/me/export", withTimeout(exportTimeout), e.wrap(limitBody), e.wrap(user), e.wrap(limits.exports), e.wrap(h.me.export))

	// An upload is larger and slower than other bodies.
	r.POST("/api/v1/admin/images", h.auth.strictTransport, withTimeout(uploadTimeout), operate, limitConcurrency(maxUploads, e.write), e.wrap(h.images.upload))

	// Files are streamed.
	files := r.Group("/api/v1/admin", h.auth.strictTransport, withTimeout(fileTimeout), e.wrap(limitBody), read)
	files.GET("/orders.csv", e.wrap(h.exports.orderFile))
	files.GET("/payments.csv", e.wrap(h.exports.paymentFile))
	files.GET("/audit.csv", e.wrap(h.exports.auditFile))

	// Reads of the database are limited, so that purchases take precedence.
	reads := limitConcurrency(maxReads, e.write)

	v1 := r.Group("/api/v1", h.auth.strictTransport, withTimeout(answerTimeout), e.wrap(limitBody))
	v1.GET("/openapi.json", func(c *gin.Context) { c.Data(http.StatusOK, "application/json", openAPI) })

	v1.POST("/auth/code", e.wrap(h.auth.sendCode))
	v1.POST("/auth/login", e.wrap(h.auth.login))
	v1.POST("/auth/refresh", e.wrap(h.auth.refresh))
	v1.POST("/auth/logout", e.wrap(user), e.wrap(h.auth.logout))
	v1.POST("/auth/logout-all", e.wrap(user), e.wrap(h.auth.logoutAll))
	v1.GET("/images/:hash", e.wrap(h.images.show))
	v1.GET("/shops", reads, e.wrap(h.shops.list))
	v1.GET("/shops/:id", reads, e.wrap(h.shops.show))
	v1.POST("/admin/shops", operate, h.keys.once(h.shops.create))
	v1.PATCH("/admin/shops/:id", operate, e.wrap(h.shops.change))

	v1.GET("/me", e.wrap(user), reads, e.wrap(h.auth.me))
	v1.DELETE("/me", e.wrap(user), e.wrap(h.me.erase))

	v1.GET("/orders", e.wrap(user), reads, e.wrap(h.orders.list))
	v1.GET("/orders/:id", e.wrap(user), reads, e.wrap(h.orders.show))
	v1.POST("/orders/:id/cancel", e.wrap(user), h.keys.once(h.orders.cancel))
	v1.POST("/orders/:id/pay", e.wrap(user), h.keys.once(h.payments.pay))
	v1.POST("/orders/:id/refund", e.wrap(user), h.keys.once(h.payments.refund))
	v1.GET("/orders/:id/payments", e.wrap(user), reads, e.wrap(h.payments.list))
	v1.POST("/payments/webhook/:provider", e.wrap(h.payments.webhook))

	v1.POST("/admin/vouchers", operate, h.keys.once(h.vouchers.create))
	v1.PATCH("/admin/vouchers/:id", operate, e.wrap(h.vouchers.change))
	v1.GET("/admin/vouchers/:id/checklist", read, e.wrap(h.vouchers.checklist))
	v1.POST("/admin/vouchers/:id/publish", operate, h.keys.once(h.vouchers.publish))
	v1.GET("/admin/vouchers/:id/stats", read, e.wrap(h.stats.show))
	v1.POST("/admin/vouchers/:id/stock", operate, h.keys.once(h.vouchers.changeStock))
	v1.POST("/admin/vouchers/:id/room", operate, h.keys.once(h.vouchers.changeRoom))
	v1.POST("/admin/vouchers/:id/refunds", operate, h.keys.once(h.adminOrders.refundAll))
	v1.GET("/admin/vouchers/:id/refunds", read, e.wrap(h.adminOrders.refundable))
	v1.GET("/admin/orders", read, e.wrap(h.adminOrders.list))
	v1.GET("/admin/orders/:id", read, e.wrap(h.adminOrders.show))
	v1.GET("/admin/orders/:id/phone", phones, e.wrap(h.adminOrders.phone))
	v1.POST("/admin/orders/search", phones, e.wrap(h.adminOrders.search))
	v1.POST("/admin/orders/:id/cancel", operate, h.keys.once(h.adminOrders.cancel))
	v1.POST("/admin/orders/:id/refund", operate, h.keys.once(h.adminOrders.refund))
	v1.POST("/admin/orders/:id/return-outside", operate, h.keys.once(h.adminOrders.returnOutside))
	v1.POST("/admin/orders/:id/redeem", operate, h.keys.once(h.orders.redeem))
	v1.POST("/admin/orders/:id/undo-redeem", operate, h.keys.once(h.orders.undoRedeem))
	v1.POST("/admin/redeem/preview", redeem, e.wrap(h.adminOrders.previewCode))
	v1.POST("/admin/redeem", redeem, h.keys.once(h.orders.redeemCode))
	v1.POST("/admin/redeem/undo", redeem, h.keys.once(h.orders.undoRedeemCode))
	v1.GET("/admin/audit", read, e.wrap(h.auditLog.list))
	v1.GET("/admin/alerts", read, e.wrap(h.alerts.list))
	v1.GET("/admin/dead-letters", read, e.wrap(h.deadLetters.list))
	v1.POST("/admin/dead-letters/:id/replay", operate, h.keys.once(h.deadLetters.replay))
	v1.POST("/admin/dead-letters/:id/discard", operate, h.keys.once(h.deadLetters.discard))
	v1.GET("/admin/payment-notices", read, e.wrap(h.notices.list))
	v1.POST("/admin/payment-notices/:id/close", operate, h.keys.once(h.notices.close))
	v1.GET("/admin/events", read, e.wrap(h.orderEvents.list))
	v1.POST("/admin/events/:id/repeat", operate, h.keys.once(h.orderEvents.repeat))
	v1.GET("/admin/reconcile", read, e.wrap(h.reconcile.report))
	v1.POST("/admin/reconcile", administer, e.wrap(h.reconcile.apply))
	v1.POST("/admin/rush", administer, e.wrap(h.rush.requireDemo), h.keys.once(h.rush.start))
	v1.GET("/admin/rush", administer, e.wrap(h.rush.requireDemo), e.wrap(h.rush.show))
	v1.DELETE("/admin/rush", administer, e.wrap(h.rush.requireDemo), e.wrap(h.rush.stop))

	h.hmdp.routes(r, limits, press)
	return server{r, answerHead(readForwarded(r, ParseProxies(cfg.TrustedProxies), cfg.Log))}, nil
}

// server is a router behind what happens before routing.
type server struct {
	router *gin.Engine
	http.Handler
}

// refuseMethod answers a method that a path does not have. gin has set Allow to the others.
func refuseMethod(c *gin.Context) error {
	allow := c.Writer.Header().Get("Allow")
	if strings.Contains(allow, http.MethodGet) {
		c.Header("Allow", allow+", "+http.MethodHead)
	}
	return errMethodNotAllowed
}

// wantsPage reports whether a browser requests a page: by GET, outside the API, and accepting HTML.
func wantsPage(r *http.Request) bool {
	return r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/api/") &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}

// handlers holds the handlers of all resources.
type handlers struct {
	staff       *staff
	auth        *authHandler
	me          *meHandler
	shops       *shopHandler
	images      *imageHandler
	vouchers    *voucherHandler
	orders      *orderHandler
	entry       *entryHandler
	adminOrders *adminOrderHandler
	events      *eventHandler
	payments    *paymentHandler
	auditLog    *auditHandler
	alerts      *alertHandler
	exports     *exportHandler
	deadLetters *deadLetterHandler
	orderEvents *orderEventHandler
	notices     *unreadNoticeHandler
	keys        *keyHandler
	stats       *statsHandler
	rush        *rushHandler
	reconcile   *reconcileHandler
	hmdp        *hmdpHandler
}

func newHandlers(cfg Config, e *errorWriter, limits *limits) handlers {
	cursors, staff := cursors{cfg.CursorKeys, limits.visit}, newStaff(cfg)
	cookies := cookies{ParseProxies(cfg.TrustedProxies)}
	auth := &authHandler{
		auth: cfg.Auth, staff: staff, security: e.security, demo: cfg.Demo, cookies: cookies,
		limitRefresh: limits.refreshes, charge: limits.charge,
	}
	vouchers := newVoucherHandler(cfg.Vouchers, cfg.Drafts, cfg.Now, cursors, func(c *gin.Context, denied error, answer func() error) {
		staff.reveal(c, domain.MayRead, auth.require, e.write, denied, answer)
	}, limits.visit)
	return handlers{
		staff:    staff,
		auth:     auth,
		me:       &meHandler{errors: e, auth: auth, orders: cfg.Orders, audit: cfg.AuditLog, personal: cfg.Personal, now: cfg.Now, reads: make(slots, maxExports)},
		shops:    newShopHandler(cfg, cursors, limits.visit),
		images:   &imageHandler{cfg.Pictures, limits.visit},
		vouchers: vouchers,
		orders:   &orderHandler{orders: cfg.Orders, cursors: cursors},
		entry:    &entryHandler{auth: cfg.Auth, service: cfg.Entry, subscribers: cfg.RoomSubscribers},
		adminOrders: &adminOrderHandler{
			finder: cfg.Search, orders: cfg.Orders, payments: cfg.Payments, vouchers: cfg.Vouchers, voucher: vouchers, audit: cfg.AuditLog,
			now: cfg.Now, cursors: cursors,
		},
		events:      &eventHandler{auth: cfg.Auth, orders: cfg.Orders, subscribers: cfg.Subscribers, lostAfter: cmp.Or(cfg.LostAfter, defaultLostAfter)},
		payments:    &paymentHandler{payments: cfg.Payments},
		auditLog:    &auditHandler{log: cfg.AuditLog, cursors: cursors},
		alerts:      &alertHandler{cfg.Reconciler, cfg.DeadLetters, cfg.Failures},
		exports:     &exportHandler{e, cfg.Search, cfg.PaymentList, cfg.AuditLog, cfg.Now, make(slots, maxFiles)},
		deadLetters: &deadLetterHandler{deadLetters: cfg.DeadLetters, cursors: cursors},
		orderEvents: &orderEventHandler{events: cfg.Events, cursors: cursors},
		notices:     &unreadNoticeHandler{notices: cfg.Notices, now: cfg.Now, cursors: cursors},
		keys:        &keyHandler{keys: cfg.Keys, errors: e},
		stats:       &statsHandler{auth: cfg.Auth, monitor: cfg.Monitor, subscribers: cfg.SaleSubscribers, vouchers: vouchers, entries: cfg.Entry},
		rush:        &rushHandler{rush: cfg.Rush},
		reconcile:   &reconcileHandler{reconciler: cfg.Reconciler},
		hmdp: &hmdpHandler{
			errors: e, auth: cfg.Auth, staff: staff, shops: cfg.Shops, vouchers: cfg.Vouchers, orders: cfg.Orders, zone: cfg.Zone, demo: cfg.Demo,
			cookies: cookies, now: cfg.Now, lists: newSnapshots[int64, *service.Catalog](), shopPages: newAnswerCache[shopQuery](hmdpTimeout, limits.visit, cfg.Now), limits: limits,
		},
	}
}

// permit returns the middleware of routes that need a permission.
func (h *handlers) permit(p domain.Permission, e *errorWriter) gin.HandlerFunc {
	return h.staff.require(p, h.auth.require, e.write)
}
