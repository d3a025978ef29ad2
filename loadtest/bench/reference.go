package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
)

//go:embed reserve.lua
var reserveSource string

var reserveScript = redis.NewScript(reserveSource)

func reserveKeys(sale string) []string {
	tag := "bench:{" + sale + "}:"

	return []string{tag + "stock", tag + "buyers", tag + "queue"}
}

// Answers of the same size as the real ones: an order, a queued order, a voucher.
const (
	orderBody = `{"id":"3373256293097668610","voucher_id":"1000","user_id":"100000","status":"pending_payment","amount":100,` +
		`"created_at":"2026-11-11T12:00:00.123Z","expires_at":"2026-11-11T12:15:00.123Z"}`
	queuedBody  = `{"id":"3373256293097668610","voucher_id":"1000","user_id":"100000","status":"queued","amount":100}`
	voucherBody = `{"id":"1000","shop_id":"1","title":"Rush of 2026-11-11 12:00:00","sub_title":"","rules":"","pay_value":100,` +
		`"actual_value":200,"currency":"CNY","type":"seckill","status":"on","state":"on_sale","initial_stock":100000,"stock":99999,` +
		`"begin_at":"2026-11-11T11:59:00.123Z","end_at":"2026-11-11T13:00:00.123Z","limit_per_user":1,` +
		`"created_at":"2026-11-11T12:00:00.123Z","updated_at":"2026-11-11T12:00:00.123Z","server_time":"2026-11-11T12:00:00.123Z"}`
)

// Kinds of reference servers, with which the product is compared.
const (
	bareGin       = "gin"
	ginWithScript = "evalsha"
)

// Routes of the product, so that all servers get the same requests.
const (
	vouchersRoute = "/api/v1/vouchers"
	voucherRoute  = vouchersRoute + "/:id"
	orderRoute    = voucherRoute + "/orders"
)

const jsonType = "application/json; charset=utf-8"

// referenceCommand is the subcommand of this program that runs a reference server.
const referenceCommand = "reference"

func serveReference(ctx context.Context, kind, redisAddr, addr string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // usually closed before

	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.GET("/healthz", func(*gin.Context) {})

	switch kind {
	case bareGin:
		r.POST(orderRoute, fixed(http.StatusCreated, []byte(orderBody)))
		r.GET(voucherRoute, fixed(http.StatusOK, []byte(voucherBody)))
	case ginWithScript:
		// A larger pool than the default was not faster.
		rdb := redis.NewClient(&redis.Options{Addr: redisAddr, MaxRetries: -1})
		defer func() { _ = rdb.Close() }()
		r.POST(orderRoute, reserve(rdb)) //nolint:contextcheck // it uses the request's context
	default:
		return fmt.Errorf("%q is neither %s nor %s", kind, bareGin, ginWithScript)
	}

	srv := &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}
	closed := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer closed()

	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}

	return nil
}

func fixed(status int, body []byte) gin.HandlerFunc {
	return func(c *gin.Context) { c.Data(status, jsonType, body) }
}

func reserve(rdb *redis.Client) gin.HandlerFunc {
	var buyers atomic.Int64
	body := []byte(queuedBody)

	return func(c *gin.Context) {
		id := strconv.FormatInt(buyers.Add(1), 10)
		outcome, err := reserveScript.Run(c.Request.Context(), rdb, reserveKeys(c.Param("id")), id, id).Int()
		switch {
		case err != nil:
			c.Data(http.StatusServiceUnavailable, "application/problem+json", []byte(`{"code":"unavailable"}`))
		case outcome != 0:
			c.Data(http.StatusConflict, "application/problem+json", []byte(`{"code":"sold_out"}`))
		default:
			c.Data(http.StatusAccepted, jsonType, body)
		}
	}
}
