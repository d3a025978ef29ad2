package reference

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/loadtest/bench/loadgen"
	"seckill/test/testenv"
)

func TestReserveScript(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		keys := ReserveKeys("7")
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

func TestReferenceBodiesAreJSON(t *testing.T) {
	t.Parallel()
	for _, body := range []string{orderBody, queuedBody, voucherBody, string(vouchersBody())} {
		assert.True(t, json.Valid([]byte(body)), body)
	}
}

func TestReferenceServes(t *testing.T) {
	r := testenv.StartRedis(t) // private: the sale must be new
	rdb := r.Client(t)
	for kind, want := range map[string]int{Gin: http.StatusCreated, GinWithScript: http.StatusAccepted} {
		require.NoError(t, rdb.Set(t.Context(), ReserveKeys("8")[0], 1, 0).Err())
		ctx, stop := context.WithCancel(t.Context())
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, l, kind, r.Addr) }()
		c, err := loadgen.Dial(t.Context(), l.Addr().String())
		require.NoError(t, err)
		order := loadgen.Request(http.MethodPost, strings.Replace(OrderRoute, ":id", "8", 1), "token", "", "")
		a, err := c.Do(order)
		require.NoError(t, err)
		assert.Equal(t, want, a.Status, kind)
		if kind == Gin {
			for _, path := range []string{"/api/v1/vouchers/8", "/api/v1/vouchers"} {
				a, err = c.Do(loadgen.Request(http.MethodGet, path, "", "", ""))
				require.NoError(t, err)
				assert.Equal(t, http.StatusOK, a.Status, path)
			}
		}
		if kind == GinWithScript {
			a, err = c.Do(order)
			require.NoError(t, err)
			assert.Equal(t, "sold_out", string(a.Code))
		}
		_ = c.Close()
		stop()
		require.NoError(t, <-ended)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.Error(t, Serve(t.Context(), l, "other", ""))
}
