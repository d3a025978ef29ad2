package servers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecentMySQL(t *testing.T) {
	t.Parallel()
	for version, recent := range map[string]bool{
		"mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))":                               true,
		"/usr/sbin/mysqld  Ver 8.4.8-0ubuntu1 for Linux on x86_64 ((Ubuntu))":              true,
		"/usr/sbin/mysqld  Ver 10.0.1 for Linux on x86_64":                                 true,
		"/usr/sbin/mysqld  Ver 8.0.44-0ubuntu0.24.04.1 for Linux on x86_64 ((Ubuntu))":     false,
		"mysqld  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)": false,
		"": false,
	} {
		require.Equal(t, recent, recentMySQL(version), version)
	}
}
