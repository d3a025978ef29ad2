package handler

import (
	"cmp"
	_ "embed"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"seckill/internal/auth"
	"seckill/internal/salestats"
	"seckill/internal/service"
)

// Config is what the HTTP layer needs.
type Config struct {
	Auth           *auth.Service
	Vouchers       *service.Vouchers
	Orders         *service.Orders
	Payments       *service.Payments
	Watchers       *salestats.Watchers
	DeadLetters    *service.DeadLetters
	Shops          service.ShopStore
	AuditLog       service.AuditStore
	Keys           *service.Idempotency
	Reconciler     *service.Reconciler
	Pulse          *salestats.Pulse    // counts the answers to buyers; may be nil
	Monitor        *salestats.Monitor  // shows sales as they are now
	SaleWatchers   *salestats.Watchers // of sales
	LostAfter      time.Duration       // how long a queued order is nowhere to be found before its stream says that it failed; default 30 s
	Rush           service.Rusher      // nil where the server is no demo
	Ready          map[string]Check    // dependencies by name, asked by /readyz
	Metrics        prometheus.Registerer
	Log            *slog.Logger
	Now            func() time.Time
	Demo           bool           // login codes in the X-Demo-Code header
	RateLimit      bool           // per address on /auth, per user on orders
	TrustedProxies []string       // whose X-Forwarded-For and -Proto are believed; nobody's by default
	Zone           *time.Location // of times that are written without one, as the hm-dianping pages do

	// Pages are for people, by their patterns; they set their own Content-Security-Policy and Cache-Control.
	Pages map[string]http.Handler
}

//go:embed openapi.json
var openAPI []byte

// New makes the handler of the public port.
func New(cfg Config) (http.Handler, error) {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.RedirectTrailingSlash = false // gin's redirect comes without our headers; a wrong path is 404
	if err := r.SetTrustedProxies(cfg.TrustedProxies); err != nil {
		return nil, fmt.Errorf("trusted proxies: %w", err)
	}
	e := &errorWriter{log: cfg.Log, unavailable: &rate.Sometimes{Interval: time.Second}}
	limits, counted := newLimits(cfg.RateLimit), tally(cfg.Pulse)
	h := newHandlers(cfg, e, limits)
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	// Every POST that changes something goes through keys, but for authentication, for reconciling, which is the same
	// however often it is done, and for orders, which keep their keys themselves.
	user, admin := h.auth.require(service.RoleBuyer), h.auth.require(service.RoleAdmin)

	r.Use(requestID, e.observe(metrics), e.recovery(), secureHeaders)
	r.NoRoute(e.wrap(func(*gin.Context) error { return service.ErrNotFound }))

	for pattern, page := range cfg.Pages {
		r.Match([]string{http.MethodGet, http.MethodHead}, pattern, gin.WrapH(page))
	}
	r.GET("/healthz", e.wrap(health))
	r.GET("/readyz", e.wrap(ready(cfg.Ready)))

	// The service bounds a purchase by itself, and the hot route is spared the second timer.
	r.POST("/api/v1/vouchers/:id/orders", counted, e.wrap(limitBody), e.wrap(user), e.wrap(limits.orders), e.wrap(h.orders.place))

	// Vouchers are answered from memory; what has to be read first is bounded by the service.
	r.GET("/api/v1/vouchers", e.wrap(limitBody), e.wrap(h.vouchers.list))
	r.GET("/api/v1/vouchers/:id", e.wrap(limitBody), e.wrap(h.vouchers.show))

	// A stream lasts as long as its order is under way, or somebody watches the sale.
	r.GET("/api/v1/orders/:id/events", e.wrap(user), e.wrap(h.events.order))
	r.GET("/api/v1/admin/vouchers/:id/events", e.wrap(admin), e.wrap(h.stats.events))

	// What reads the database for a user gives way to buyers.
	reads := shed(maxReads, e.write)

	v1 := r.Group("/api/v1", within(answerTimeout), e.wrap(limitBody))
	v1.GET("/openapi.json", func(c *gin.Context) { c.Data(http.StatusOK, "application/json", openAPI) })

	v1.POST("/auth/code", e.wrap(limits.codes), e.wrap(h.auth.sendCode))
	v1.POST("/auth/login", e.wrap(limits.logins), e.wrap(h.auth.login))
	v1.POST("/auth/refresh", e.wrap(h.auth.refresh))
	v1.POST("/auth/logout", e.wrap(user), e.wrap(h.auth.logout))
	v1.GET("/me", e.wrap(user), reads, e.wrap(h.auth.me))

	v1.GET("/orders", e.wrap(user), reads, e.wrap(h.orders.list))
	v1.GET("/orders/:id", e.wrap(user), reads, e.wrap(h.orders.show))
	v1.POST("/orders/:id/cancel", e.wrap(user), e.wrap(h.keys.once), e.wrap(h.orders.cancel))
	v1.POST("/orders/:id/pay", e.wrap(user), e.wrap(h.keys.once), e.wrap(h.payments.pay))
	v1.POST("/orders/:id/refund", e.wrap(user), e.wrap(h.keys.once), e.wrap(h.payments.refund))
	v1.GET("/orders/:id/payments", e.wrap(user), reads, e.wrap(h.payments.list))
	v1.POST("/payments/webhook/:provider", e.wrap(h.payments.webhook))

	v1.POST("/admin/vouchers", e.wrap(admin), e.wrap(h.keys.once), e.wrap(h.vouchers.create))
	v1.PATCH("/admin/vouchers/:id", e.wrap(admin), e.wrap(h.vouchers.change))
	v1.GET("/admin/vouchers/:id/stats", e.wrap(admin), e.wrap(h.stats.show))
	v1.POST("/admin/vouchers/:id/stock", e.wrap(admin), e.wrap(h.keys.once), e.wrap(h.vouchers.changeStock))
	v1.GET("/admin/orders", e.wrap(admin), e.wrap(h.adminOrders.list))
	v1.GET("/admin/orders/:id", e.wrap(admin), e.wrap(h.adminOrders.show))
	v1.POST("/admin/orders/:id/cancel", e.wrap(admin), e.wrap(h.keys.once), e.wrap(h.adminOrders.cancel))
	v1.POST("/admin/orders/:id/refund", e.wrap(admin), e.wrap(h.keys.once), e.wrap(h.adminOrders.refund))
	v1.POST("/admin/orders/:id/redeem", e.wrap(admin), e.wrap(h.keys.once), e.wrap(h.orders.redeem))
	v1.POST("/admin/redeem", e.wrap(admin), e.wrap(h.keys.once), e.wrap(h.orders.redeemCode))
	v1.GET("/admin/audit", e.wrap(admin), e.wrap(h.auditLog.list))
	v1.GET("/admin/dead-letters", e.wrap(admin), e.wrap(h.letters.list))
	v1.POST("/admin/dead-letters/:id/replay", e.wrap(admin), e.wrap(h.keys.once), e.wrap(h.letters.replay))
	v1.POST("/admin/dead-letters/:id/discard", e.wrap(admin), e.wrap(h.keys.once), e.wrap(h.letters.discard))
	v1.GET("/admin/reconcile", e.wrap(admin), e.wrap(h.reconcile.report))
	v1.POST("/admin/reconcile", e.wrap(admin), e.wrap(h.reconcile.apply))
	v1.POST("/admin/rush", e.wrap(admin), e.wrap(h.rush.demo), e.wrap(h.keys.once), e.wrap(h.rush.start))
	v1.GET("/admin/rush", e.wrap(admin), e.wrap(h.rush.demo), e.wrap(h.rush.show))
	v1.DELETE("/admin/rush", e.wrap(admin), e.wrap(h.rush.demo), e.wrap(h.rush.stop))

	h.hmdp.routes(r, limits, counted)
	return r, nil
}

// handlers are those of all resources.
type handlers struct {
	auth        *authHandler
	vouchers    *voucherHandler
	orders      *orderHandler
	adminOrders *adminOrderHandler
	events      *eventHandler
	payments    *paymentHandler
	auditLog    *auditHandler
	letters     *deadLetterHandler
	keys        *keyHandler
	stats       *statsHandler
	rush        *rushHandler
	reconcile   *reconcileHandler
	hmdp        *hmdpHandler
}

func newHandlers(cfg Config, e *errorWriter, limits *limits) handlers {
	vouchers := newVoucherHandler(cfg.Vouchers, cfg.Now)
	return handlers{
		auth:        &authHandler{auth: cfg.Auth, demo: cfg.Demo, proxies: parseProxies(cfg.TrustedProxies), refreshes: limits.refreshes},
		vouchers:    vouchers,
		orders:      &orderHandler{orders: cfg.Orders},
		adminOrders: &adminOrderHandler{orders: cfg.Orders, payments: cfg.Payments},
		events:      &eventHandler{orders: cfg.Orders, watchers: cfg.Watchers, lostAfter: cmp.Or(cfg.LostAfter, defaultLostAfter)},
		payments:    &paymentHandler{payments: cfg.Payments},
		auditLog:    &auditHandler{log: cfg.AuditLog},
		letters:     &deadLetterHandler{letters: cfg.DeadLetters},
		keys:        &keyHandler{keys: cfg.Keys},
		stats:       &statsHandler{monitor: cfg.Monitor, watchers: cfg.SaleWatchers, vouchers: vouchers},
		rush:        &rushHandler{rush: cfg.Rush},
		reconcile:   &reconcileHandler{reconciler: cfg.Reconciler},
		hmdp: &hmdpHandler{
			errors: e, auth: cfg.Auth, shops: cfg.Shops, vouchers: cfg.Vouchers, orders: cfg.Orders, zone: cfg.Zone, demo: cfg.Demo,
			now: cfg.Now, lists: newSnapshots[int64, *service.Catalog](), shopPages: newShopPages(),
		},
	}
}
