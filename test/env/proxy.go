package env

import (
	"testing"

	"seckill/test/env/servers"
)

// StartProxy starts a proxy and stops it at cleanup. Each new connection leads to the first of the addresses that accepts
// it.
func StartProxy(tb testing.TB, addrs ...string) *servers.Proxy {
	tb.Helper()
	p, err := servers.StartProxy(tb.Context(), addrs...)
	need(tb, err)
	tb.Cleanup(p.Close)
	return p
}
