package handler

import (
	_ "embed"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"seckill/internal/service"
)

// Config is what the HTTP layer needs.
type Config struct {
	Auth           *service.Auth
	Vouchers       *service.Vouchers
	Orders         *service.Orders
	Payments       *service.Payments
	Watchers       *service.Watchers
	DeadLetters    *service.DeadLetters
	Shops          service.ShopStore
	AuditLog       service.AuditStore
	Keys           *service.Idempotency
	Reconciler     *service.Reconciler
	Pulse          *service.Pulse    // counts the answers to buyers; may be nil
	Monitor        *service.Monitor  // shows sales as they are now
	SaleWatchers   *service.Watchers // of sales
	Ready          map[string]Check  // dependencies by name, asked by /readyz
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
	auth := &authHandler{auth: cfg.Auth, demo: cfg.Demo, proxies: parseProxies(cfg.TrustedProxies)}
	vouchers := &voucherHandler{vouchers: cfg.Vouchers, now: cfg.Now}
	orders := &orderHandler{orders: cfg.Orders}
	adminOrders := &adminOrderHandler{orders: cfg.Orders, payments: cfg.Payments}
	events := &eventHandler{orders: cfg.Orders, watchers: cfg.Watchers}
	payments := &paymentHandler{payments: cfg.Payments}
	auditLog := &auditHandler{log: cfg.AuditLog}
	letters := &deadLetterHandler{letters: cfg.DeadLetters}
	keys := &keyHandler{keys: cfg.Keys}
	stats := &statsHandler{monitor: cfg.Monitor, watchers: cfg.SaleWatchers, vouchers: vouchers}
	counted := tally(cfg.Pulse)
	reconcile := &reconcileHandler{reconciler: cfg.Reconciler}
	hmdp := &hmdpHandler{
		errors: e, auth: cfg.Auth, shops: cfg.Shops, vouchers: cfg.Vouchers, orders: cfg.Orders, zone: cfg.Zone, demo: cfg.Demo,
	}
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	limits := newLimits(cfg.RateLimit)
	// Every POST that changes something goes through keys, but for authentication, and for reconciling, which is the same
	// however often it is done.
	user, admin := auth.require(service.RoleBuyer), auth.require(service.RoleAdmin)

	r.Use(requestID, e.observe(metrics), e.recovery(), secureHeaders)
	r.NoRoute(e.wrap(func(*gin.Context) error { return service.ErrNotFound }))

	for pattern, page := range cfg.Pages {
		r.Match([]string{http.MethodGet, http.MethodHead}, pattern, gin.WrapH(page))
	}
	r.GET("/healthz", e.wrap(health))
	r.GET("/readyz", e.wrap(ready(cfg.Ready)))

	// The service bounds a purchase by itself, and the hot route is spared the second timer.
	r.POST("/api/v1/vouchers/:id/orders", counted, e.wrap(limitBody), e.wrap(user), e.wrap(limits.orders), e.wrap(keys.order), e.wrap(orders.place))

	// A stream lasts as long as its order is under way, or somebody watches the sale.
	r.GET("/api/v1/orders/:id/events", e.wrap(user), e.wrap(events.order))
	r.GET("/api/v1/admin/vouchers/:id/events", e.wrap(admin), e.wrap(stats.events))

	v1 := r.Group("/api/v1", within(answerTimeout), e.wrap(limitBody))
	v1.GET("/openapi.json", func(c *gin.Context) { c.Data(http.StatusOK, "application/json", openAPI) })

	v1.POST("/auth/code", e.wrap(limits.codes), e.wrap(auth.sendCode))
	v1.POST("/auth/login", e.wrap(limits.logins), e.wrap(auth.login))
	v1.POST("/auth/refresh", e.wrap(limits.logins), e.wrap(auth.refresh))
	v1.POST("/auth/logout", e.wrap(user), e.wrap(auth.logout))
	v1.GET("/me", e.wrap(user), e.wrap(auth.me))

	v1.GET("/vouchers", e.wrap(vouchers.list))
	v1.GET("/vouchers/:id", e.wrap(vouchers.show))

	v1.GET("/orders", e.wrap(user), e.wrap(orders.list))
	v1.GET("/orders/:id", e.wrap(user), e.wrap(orders.show))
	v1.POST("/orders/:id/cancel", e.wrap(user), e.wrap(keys.change), e.wrap(orders.cancel))
	v1.POST("/orders/:id/pay", e.wrap(user), e.wrap(keys.change), e.wrap(payments.pay))
	v1.POST("/orders/:id/refund", e.wrap(user), e.wrap(keys.change), e.wrap(payments.refund))
	v1.GET("/orders/:id/payments", e.wrap(user), e.wrap(payments.list))
	v1.POST("/payments/webhook/:provider", e.wrap(payments.webhook))

	v1.POST("/admin/vouchers", e.wrap(admin), e.wrap(keys.change), e.wrap(vouchers.create))
	v1.PATCH("/admin/vouchers/:id", e.wrap(admin), e.wrap(vouchers.change))
	v1.GET("/admin/vouchers/:id/stats", e.wrap(admin), e.wrap(stats.show))
	v1.POST("/admin/vouchers/:id/stock", e.wrap(admin), e.wrap(keys.change), e.wrap(vouchers.changeStock))
	v1.GET("/admin/orders", e.wrap(admin), e.wrap(adminOrders.list))
	v1.GET("/admin/orders/:id", e.wrap(admin), e.wrap(adminOrders.show))
	v1.POST("/admin/orders/:id/cancel", e.wrap(admin), e.wrap(keys.change), e.wrap(adminOrders.cancel))
	v1.POST("/admin/orders/:id/refund", e.wrap(admin), e.wrap(keys.change), e.wrap(adminOrders.refund))
	v1.POST("/admin/orders/:id/redeem", e.wrap(admin), e.wrap(keys.change), e.wrap(orders.redeem))
	v1.POST("/admin/redeem", e.wrap(admin), e.wrap(keys.change), e.wrap(orders.redeemCode))
	v1.GET("/admin/audit", e.wrap(admin), e.wrap(auditLog.list))
	v1.GET("/admin/dead-letters", e.wrap(admin), e.wrap(letters.list))
	v1.POST("/admin/dead-letters/:id/replay", e.wrap(admin), e.wrap(keys.change), e.wrap(letters.replay))
	v1.POST("/admin/dead-letters/:id/discard", e.wrap(admin), e.wrap(keys.change), e.wrap(letters.discard))
	v1.GET("/admin/reconcile", e.wrap(admin), e.wrap(reconcile.report))
	v1.POST("/admin/reconcile", e.wrap(admin), e.wrap(reconcile.apply))

	hmdp.routes(r, limits, counted)
	return r, nil
}
