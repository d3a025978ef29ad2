package handler_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// TestCursorsAreAuthentic: altered and made-up cursors, and those of other lists, are refused without a query.
func TestCursorsAreAuthentic(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	admin, buyer := e.admin(), e.buyer(1)
	for range 2 {
		buyer.place(e.sale(1))
	}
	lists := []string{"/api/v1/vouchers", "/api/v1/orders", "/api/v1/admin/orders", "/api/v1/admin/audit"}
	caller := func(path string) client {
		if strings.Contains(path, "/admin/") {
			return admin
		}
		return buyer
	}
	cursors := map[string]string{}
	for _, path := range lists {
		l := decode[listView[any]](caller(path).get(path + "?limit=1").want(http.StatusOK))
		require.NotNil(t, l.NextCursor, path)
		cursors[path] = *l.NextCursor
		caller(path).get(path + "?cursor=" + cursors[path]).want(http.StatusOK)
	}
	e.store.fail(func() error { return domain.ErrUnavailable })
	caller("/api/v1/orders").get("/api/v1/orders?cursor=" + cursors["/api/v1/orders"]).want(http.StatusServiceUnavailable)
	text := base64.RawURLEncoding.EncodeToString
	for _, path := range lists {
		own := cursors[path]
		raw, err := base64.RawURLEncoding.DecodeString(own)
		require.NoError(t, err)
		tag, position := raw[:10:10], raw[10:]
		refused := map[string]string{
			"a plain id":       string(position),
			"without a tag":    text(position),
			"a tag of zeros":   text(append(make([]byte, 10), position...)),
			"another position": text(append(tag, append(position, '0')...)),
			"only a tag":       text(tag),
			"extended":         own + "AA",
			"long":             strings.Repeat("A", 8000),
		}
		for _, other := range lists {
			if other != path {
				refused["of "+other] = cursors[other]
			}
		}
		for name, cursor := range refused {
			p := caller(path).bad().get(path+"?cursor="+cursor).problem(http.StatusBadRequest, "invalid_request")
			assert.Equal(t, "cursor: must be a next_cursor of this list", p.Detail, "%s, %s", path, name)
		}
	}
}
