package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"seckill/internal/app"
)

// TestSecretsFromFiles reads every setting that may be a file.
func TestSecretsFromFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"JWT_SECRET", "PAYMENT_SECRET", "EVENTS_SECRET", "MYSQL_DSN", "REDIS_PASSWORD"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("value of "+name+"\n"), 0o600))
		t.Setenv("SECKILL_"+name+"_FILE", path)
	}
	parse := func(args ...string) app.Config {
		var c cli
		parser, err := kong.New(&c, kong.Resolvers(kong.ResolverFunc(secretFile)))
		require.NoError(t, err)
		_, err = parser.Parse(args)
		require.NoError(t, err)
		return c.Config
	}
	c := parse("serve")
	require.Equal(t, []string{"value of JWT_SECRET", "value of PAYMENT_SECRET", "value of EVENTS_SECRET", "value of MYSQL_DSN", "value of REDIS_PASSWORD"},
		[]string{c.JWTSecret, c.PaymentSecret, c.EventsSecret, c.MySQLDSN, c.RedisPassword})
	require.Equal(t, "flag", parse("serve", "--redis-password=flag").RedisPassword)
}

func TestUnusableSecretFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	empty, missing := filepath.Join(dir, "empty"), filepath.Join(dir, "missing")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for name, tc := range map[string]struct {
		env  map[string]string
		want []string
	}{
		"missing":  {map[string]string{"SECKILL_JWT_SECRET_FILE": missing}, []string{"SECKILL_JWT_SECRET_FILE", missing}},
		"empty":    {map[string]string{"SECKILL_MYSQL_DSN_FILE": empty}, []string{"SECKILL_MYSQL_DSN_FILE", empty}},
		"both set": {map[string]string{"SECKILL_REDIS_PASSWORD_FILE": empty, "SECKILL_REDIS_PASSWORD": "x"}, []string{"SECKILL_REDIS_PASSWORD and SECKILL_REDIS_PASSWORD_FILE are both set"}},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range tc.env {
				t.Setenv(variable, value)
			}
			var stdout, stderr bytes.Buffer
			require.Equal(t, 1, Run(context.Background(), []string{"serve", "--data-dir", dir}, &stdout, &stderr, app.Tuning{}))
			for _, want := range tc.want {
				require.Contains(t, strings.Join(strings.Fields(stderr.String()), " "), want)
			}
		})
	}
}
