package version

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReleaseComesBeforeBuildInfo(t *testing.T) {
	recorded := func(v string) *debug.BuildInfo { return &debug.BuildInfo{Main: debug.Module{Version: v}} }
	const pseudo = "v0.0.0-20261122230000-0123456789ab+dirty"
	require.Equal(t, "1.2.3", choose("1.2.3", recorded(pseudo)))
	require.Equal(t, pseudo, choose("", recorded(pseudo)))
	require.Equal(t, "devel", choose("", recorded("(devel)")))
	require.Equal(t, "devel", choose("", recorded("")))
	require.Equal(t, "devel", choose("", nil))
}

// A User-Agent is product/version, and both are tokens (RFC 9110, section 10.1.5).
func TestUserAgentIsAToken(t *testing.T) {
	require.Regexp(t, "^seckill/[-!#$%&'*+.^_`|~0-9A-Za-z]+$", UserAgent())
}
