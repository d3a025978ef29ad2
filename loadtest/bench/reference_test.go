package main

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/testenv"
)

func TestReserveScript(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		keys := reserveKeys("7")
		require.NoError(t, rdb.Set(t.Context(), keys[0], 1, 0).Err())
		for _, c := range []struct {
			user string
			want int
		}{{"1", 0}, {"1", 2}, {"2", 1}} {
			got, err := reserveScript.Run(t.Context(), rdb, keys, c.user, "9").Int()
			require.NoError(t, err)
			assert.Equal(t, c.want, got, c.user)
		}
		queue, err := rdb.XRange(t.Context(), keys[2], "-", "+").Result()
		require.NoError(t, err)
		require.Len(t, queue, 1)
		assert.Equal(t, map[string]any{"user": "1", "order": "9"}, queue[0].Values)
	})
}

// started passes on the line with the address of a server.
type started chan string

func (s started) Write(p []byte) (int, error) { s <- string(p); return len(p), nil }

func TestReferenceBodiesAreJSON(t *testing.T) {
	t.Parallel()
	for _, body := range []string{orderBody, queuedBody, voucherBody, string(vouchersBody())} {
		assert.True(t, json.Valid([]byte(body)), body)
	}
}

func TestReferenceServes(t *testing.T) {
	r := testenv.StartRedis(t) // private: the sale must be new
	rdb := r.Client(t)
	for kind, want := range map[string]int{bareGin: http.StatusCreated, ginWithScript: http.StatusAccepted} {
		require.NoError(t, rdb.Set(t.Context(), reserveKeys("8")[0], 1, 0).Err())
		ctx, stop := context.WithCancel(t.Context())
		line, ended := make(started, 1), make(chan error, 1)
		go func() { ended <- serveReference(ctx, line, kind, r.Addr) }()
		addr, ok := listenAddr(<-line)
		require.True(t, ok)
		c, err := dial(t.Context(), addr)
		require.NoError(t, err)
		a, err := c.do(orderRequest("8", "token", "", ""))
		require.NoError(t, err)
		assert.Equal(t, want, a.status, kind)
		if kind == bareGin {
			for _, path := range []string{"/api/v1/vouchers/8", "/api/v1/vouchers"} {
				a, err = c.do(getRequest(path))
				require.NoError(t, err)
				assert.Equal(t, http.StatusOK, a.status, path)
			}
		}
		if kind == ginWithScript {
			a, err = c.do(orderRequest("8", "token", "", ""))
			require.NoError(t, err)
			assert.Equal(t, "sold_out", string(a.code))
		}
		_ = c.net.Close()
		stop()
		require.NoError(t, <-ended)
	}
	require.Error(t, serveReference(t.Context(), nil, "other", ""))
}
