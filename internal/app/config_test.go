package app

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/test/env"
)

func TestReceiverMustBeConfidential(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"https://sms.example/codes": true, "http://127.0.0.1:9": true, "http://localhost/x": true, "http://[::1]:9": true,
		"http://sms.example": false, "http://10.0.0.1": false, "ftp://127.0.0.1": false, "sms.example": false, "https://": false, "http://127.0.0.1.evil.example": false,
	} {
		require.Equal(t, ok, isReceiver(url), url)
	}
}

func TestUnknownSettings(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"SECKILL_MYSQL_DNS", "SECKILL_PORT", "SECKILL_REDIS_ADDR", "SECKILL_TIMEZONE_FILE"}, unknownSettings([]string{
		"PATH=/bin", "SECKILL_ADDR=:8080", "SECKILL_MYSQL_DSN=x", "SECKILL_MYSQL_DSN_FILE=/x", "SECKILL_JWT_SECRET_FILE=/y", "SECKILL_TEST=full",
		"SECKILL_REDIS_ADDR=localhost", "SECKILL_MYSQL_DNS=x", "SECKILL_PORT=8080", "SECKILL_TIMEZONE_FILE=/z", "OTHER_SECKILL_X=1",
	}))
	require.Empty(t, unknownSettings([]string{
		"SECKILL_PORT=tcp://10.0.0.1:80", "SECKILL_SERVICE_HOST=10.0.0.1", "SECKILL_PORT_80_TCP_ADDR=10.0.0.1", "SECKILL_SERVICE_PORT_HTTP=80",
	}))
}

func TestRedisOptions(t *testing.T) {
	t.Parallel()
	c := Config{RedisAddrs: []string{"rediss://ann:p%40ss@a:1/7"}, RedisUsername: "bob", RedisPassword: "other"}
	opts := env.Must(c.SharedRedisOptions())(t)
	assert.Equal(t, []string{"a:1"}, opts.Addrs)
	assert.Equal(t, []any{"ann", "p@ss", 7}, []any{opts.Username, opts.Password, opts.DB})
	require.NotNil(t, opts.TLSConfig)
	assert.Empty(t, opts.TLSConfig.ServerName, "each server is verified by its own name")
	assert.Equal(t, []string{"a:1"}, c.redisServers())
	assert.Equal(t, []string{"other", "p@ss"}, c.RedisSecrets())

	c.RedisAddrs = []string{"redis://:p@a", "b:2", "redis://:p@c:3"}
	opts = env.Must(c.SharedRedisOptions())(t)
	assert.Equal(t, []string{"a:6379", "b:2", "c:3"}, opts.Addrs)
	assert.Equal(t, []string{"bob", "p"}, []string{opts.Username, opts.Password})
	assert.Nil(t, opts.TLSConfig)

	c.RedisAddrs, c.RedisSentinel = []string{"redis://eve:s@a:1/7", "b:2"}, "mymaster"
	opts = env.Must(c.SharedRedisOptions())(t)
	assert.Equal(t, []string{"mymaster", "eve", "s", "bob", "other"},
		[]string{opts.MasterName, opts.SentinelUsername, opts.SentinelPassword, opts.Username, opts.Password})
	assert.Equal(t, 7, opts.DB)
}

func TestRedisAddressErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{
		"redis://u:hunter2@", "redis://u:hunter2/x@a:1", "redis://:hunter2", "redis://u:12/hunter2@a", "redis://u:hunter2%zz@a:1",
		"redis://u:p#hunter2@a:1", "redis://u:p?hunter2@a:1", "u:hunter2@a:1", "valkey://u:hunter2@a:1", "unix://u:hunter2@/sock",
		"redis://u:hunter2@a:1/x", "redis://u:hunter2@a:1/-1", "redis://u:hunter2@a:99999",
	} {
		_, err := Config{RedisAddrs: []string{addr}}.SharedRedisOptions()
		require.Error(t, err, addr)
		require.NotContains(t, err.Error(), "hunter2")
		_, err = Config{LockNodes: []string{addr}, DataDir: "d", PayTimeout: 1e9, QueueBacklog: 1}.Finish()
		require.ErrorContains(t, err, "node 1", addr)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

const safeSecret = "b4c1d09f3a6e57822c9e10fd7a45be386f0b92d1e85c37a49d216fe07b58c3a2"

// safeConfig is a server with a real database whose only unsafe setting is the sandbox, as there is no other provider.
func safeConfig() Config {
	return Config{
		MySQLDSN: "seckill:9d216fe07b58c3a2@tcp(127.0.0.1:1)/seckill", DataDir: "d", JWTSecret: safeSecret, RateLimit: "on", OrderLane: "lock",
		AdminPhones: []string{"13912345678"}, CodeURL: "https://sms.example/codes", EventsSecret: "7a45be386f0b92d1e85c37a49d216fe07b58c3a2b4c1d09f3a6e57822c9e10fd",
		RedisAddrs: []string{"127.0.0.1:1"}, PayTimeout: 15 * 60e9, QueueBacklog: 1, Unsafe: []string{"sandbox"},
	}
}

// refusal returns the log and the error of refuseUnsafe for a configuration.
func refusal(t *testing.T, cfg Config) (log string, _ error) {
	t.Helper()
	cfg = env.Must(cfg.Finish())(t)
	var lines bytes.Buffer
	err := refuseUnsafe(&Env{Ctx: t.Context(), Config: cfg, Log: slog.New(slog.NewTextHandler(&lines, nil))})
	return lines.String(), err
}

func TestUnsafeSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	env.Must(refusal(t, safeConfig()))(t)
	yes, no := true, false
	for name, edit := range map[string]func(*Config){ // package doctor has the cases of each setting
		"demo":           func(c *Config) { c.Demo = &yes },
		"sandbox":        func(c *Config) { c.MySQLDSN, c.Demo, c.Unsafe = "", &no, nil },
		"jwt_secret":     func(c *Config) { c.JWTSecret += "," + strings.Repeat("a", 32) },
		"payment_secret": func(c *Config) { c.PaymentSecret = safeSecret },
		"rate_limit":     func(c *Config) { c.MySQLDSN, c.Demo, c.RateLimit = "", &no, "off" },
		"proxies":        func(c *Config) { c.Proxies = []string{"10.0.0.1", "::/0"} },
		"ops_addr":       func(c *Config) { c.OpsAddr = "203.0.113.5:9090" },
		"admins":         func(c *Config) { c.AdminPhones = []string{DemoAdmin} },
		"codes":          func(c *Config) { c.EventsSecret = safeSecret },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := safeConfig()
			edit(&cfg)
			log, err := refusal(t, cfg)
			require.ErrorContains(t, err, "\n  "+name+": ")
			require.ErrorContains(t, err, "\n    -> ")
			require.Regexp(t, `SECKILL_UNSAFE=`+name+`$`, err.Error())
			require.NotContains(t, err.Error(), safeSecret)
			require.NotContains(t, log, "name="+name)
			for _, accept := range []string{name, "config." + name, "all"} {
				accepting := cfg
				accepting.Unsafe = append([]string{accept}, cfg.Unsafe...)
				log := env.Must(refusal(t, accepting))(t)
				require.Equal(t, 1, strings.Count(log, "level=WARN msg=\"unsafe setting, accepted by SECKILL_UNSAFE\" name="+name+" "), log)
			}
		})
	}
}

// TestRefusalNamesEverySetting: one start shows everything that is to be changed.
func TestRefusalNamesEverySetting(t *testing.T) {
	t.Parallel()
	cfg := safeConfig()
	yes := true
	cfg.Demo, cfg.RateLimit, cfg.Proxies, cfg.Unsafe = &yes, "off", []string{"::/0"}, nil
	_, err := refusal(t, cfg)
	require.Regexp(t, `SECKILL_UNSAFE=demo,rate_limit,proxies,sandbox$`, err.Error())
}

func TestEmbeddedDemoAcceptsEverySetting(t *testing.T) {
	t.Parallel()
	cfg := safeConfig()
	cfg.MySQLDSN, cfg.RedisAddrs, cfg.Unsafe, cfg.CodeURL = "", nil, nil, ""
	cfg.RateLimit, cfg.PaymentSecret, cfg.Proxies, cfg.OpsAddr, cfg.AdminPhones = "off", "x", []string{"0.0.0.0/0"}, ":9090", nil
	log := env.Must(refusal(t, cfg))(t)
	require.Empty(t, log)
}

// TestSigningSecretIsPersisted: the secret is generated once, and a stored secret that is too short is an error.
func TestSigningSecretIsPersisted(t *testing.T) {
	t.Parallel()
	cfg := Config{DataDir: t.TempDir()}
	first := env.Must(SigningSecrets(cfg))(t)
	require.GreaterOrEqual(t, len(first.Signer()), auth.MinSecret)

	again := env.Must(SigningSecrets(cfg))(t)
	require.Equal(t, first, again)

	require.NoError(t, os.WriteFile(filepath.Join(cfg.DataDir, SecretFile), []byte("short"), 0o600))
	_, err := SigningSecrets(cfg)
	require.ErrorContains(t, err, "at least 32")
}
