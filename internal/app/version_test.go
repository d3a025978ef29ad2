package app

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReleaseComesBeforeBuildInfo(t *testing.T) {
	recorded := func(v string) *debug.BuildInfo { return &debug.BuildInfo{Main: debug.Module{Version: v}} }
	const pseudo = "v0.0.0-20261122230000-0123456789ab+dirty"
	require.Equal(t, "1.2.3", versionOf("1.2.3", recorded(pseudo)))
	require.Equal(t, pseudo, versionOf("", recorded(pseudo)))
	require.Equal(t, "devel", versionOf("", recorded("(devel)")))
	require.Equal(t, "devel", versionOf("", recorded("")))
	require.Equal(t, "devel", versionOf("", nil))
}

func TestDetailsNameCommit(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}, {Key: "vcs.time", Value: "2026-11-22T23:00:00Z"},
	}}
	require.Equal(t, "1.2.3 (commit 0123456789ab of 2026-11-22T23:00:00Z)", versionDetailsOf("1.2.3", info))
	require.Equal(t, "devel", versionDetailsOf("devel", &debug.BuildInfo{}))
	require.Equal(t, "devel", versionDetailsOf("devel", nil))
}

// A User-Agent is product/version, and both are tokens (RFC 9110, section 10.1.5).
func TestUserAgentIsAToken(t *testing.T) {
	require.Regexp(t, "^seckill/[-!#$%&'*+.^_`|~0-9A-Za-z]+$", UserAgent())
}
