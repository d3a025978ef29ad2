package lock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/servers"
)

// Parts of the two commands of a cycle, as they are on the wire.
const (
	setCmd    = "\r\nnx\r\n"
	scriptCmd = "\r\nevalsha\r\n"
	anyCmd    = ""
)

type (
	proxy = servers.Proxy
	fault = servers.Fault
)

// The faults of a proxy.
const (
	none      = servers.None
	dropReply = servers.DropReply
	muteReply = servers.MuteReply
	refuse    = servers.Refuse
)

// startProxy starts a proxy and stops it at cleanup.
func startProxy(t testing.TB, upstream string) *proxy {
	t.Helper()
	p, err := servers.StartProxy(t.Context(), upstream)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}
