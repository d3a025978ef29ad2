package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
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

// reserveKeys are the keys of reserve.lua for one sale.
func reserveKeys(sale string) []string {
	tag := "bench:{" + sale + "}:"
	return []string{tag + "stock", tag + "buyers", tag + "queue"}
}

// orderBody has the size of an order; queuedBody that of an order in the queue.
const (
	orderBody = `{"id":"3373256293097668610","voucher_id":"1000","user_id":"100000","status":"pending_payment","amount":100,` +
		`"created_at":"2026-11-11T12:00:00.123Z","expires_at":"2026-11-11T12:15:00.123Z"}`
	queuedBody = `{"id":"3373256293097668610","voucher_id":"1000","user_id":"100000","status":"queued","amount":100}`
)

// The servers to compare with, as arguments of the subcommand.
const (
	referenceCommand = "reference"
	bareGin          = "gin"
	ginWithScript    = "evalsha"
)

// orderRoute is that of the real server, so that all get the same requests.
const orderRoute = "/api/v1/vouchers/:id/orders"

// serveReference serves one route until ctx ends: gin and nothing else, or gin and one script call.
func serveReference(ctx context.Context, out io.Writer, kind, redisAddr string) error {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	switch kind {
	case bareGin:
		body := []byte(orderBody)
		r.POST(orderRoute, func(c *gin.Context) { c.Data(http.StatusCreated, "application/json; charset=utf-8", body) })
	case ginWithScript:
		rdb := redis.NewClient(&redis.Options{Addr: redisAddr, MaxRetries: -1}) // its default pool was not slower than a larger one
		defer func() { _ = rdb.Close() }()
		r.POST(orderRoute, reserve(rdb)) //nolint:contextcheck // it has the request's
	default:
		return fmt.Errorf("%q is neither %s nor %s", kind, bareGin, ginWithScript)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}
	closed := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer closed()
	fmt.Fprintf(out, "reference%s%s (%s)\n", listensOn, l.Addr(), kind)
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// reserve answers each request as a new buyer's.
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
			c.Data(http.StatusAccepted, "application/json; charset=utf-8", body)
		}
	}
}
