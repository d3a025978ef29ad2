package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/doctor"
	"seckill/internal/payment"
)

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
	cfg, err := cfg.Finish()
	require.NoError(t, err)
	var lines bytes.Buffer
	err = refuseUnsafe(&Env{Ctx: t.Context(), Config: cfg, Log: slog.New(slog.NewTextHandler(&lines, nil))})
	return lines.String(), err
}

func TestUnsafeSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	_, err := refusal(t, safeConfig())
	require.NoError(t, err)
	yes, no := true, false
	for what, tc := range map[string]struct {
		name string
		edit func(*Config)
	}{
		"demo on a real database":      {"demo", func(c *Config) { c.Demo = &yes }},
		"sandbox":                      {"sandbox", func(c *Config) { c.Unsafe = nil }},
		"sandbox, embedded database":   {"sandbox", func(c *Config) { c.MySQLDSN, c.Demo, c.Unsafe = "", &no, nil }},
		"faults of payments":           {"sandbox", func(c *Config) { c.Sandbox, c.Unsafe = payment.Faults{Fail: true}, nil }},
		"weak secret":                  {"jwt_secret", func(c *Config) { c.JWTSecret = strings.Repeat("a", 32) }},
		"example secret":               {"jwt_secret", func(c *Config) { c.JWTSecret = "changeme-" + safeSecret }},
		"weak old secret":              {"jwt_secret", func(c *Config) { c.JWTSecret += "," + strings.Repeat("a", 32) }},
		"no secret":                    {"jwt_secret", func(c *Config) { c.JWTSecret = "" }},
		"short payment secret":         {"payment_secret", func(c *Config) { c.PaymentSecret = "x" }},
		"token secret for payments":    {"payment_secret", func(c *Config) { c.PaymentSecret = safeSecret }},
		"rate limits off":              {"rate_limit", func(c *Config) { c.RateLimit = "off" }},
		"all IPv4 clients as proxies":  {"proxies", func(c *Config) { c.Proxies = []string{"0.0.0.0/0"} }},
		"all IPv6 clients as proxies":  {"proxies", func(c *Config) { c.Proxies = []string{"10.0.0.1", "::/0"} }},
		"profiles on a public address": {"ops_addr", func(c *Config) { c.OpsAddr = "203.0.113.5:9090" }},
		"the demo's admin":             {"admins", func(c *Config) { c.AdminPhones = []string{DemoAdmin} }},
		"weak secret of the sender":    {"codes", func(c *Config) { c.EventsSecret = strings.Repeat("e", 32) }},
		"token secret for the sender":  {"codes", func(c *Config) { c.EventsSecret = safeSecret }},
		"no sender of codes":           {"codes", func(c *Config) { c.CodeURL = "" }},
		"no sender, embedded database": {"codes", func(c *Config) { c.MySQLDSN, c.Demo, c.CodeURL = "", &no, "" }},
		"rate limits off, embedded":    {"rate_limit", func(c *Config) { c.MySQLDSN, c.Demo, c.RateLimit = "", &no, "off" }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cfg := safeConfig()
			tc.edit(&cfg)
			log, err := refusal(t, cfg)
			require.ErrorContains(t, err, "\n  "+tc.name+": ")
			require.ErrorContains(t, err, "\n    -> ")
			require.Regexp(t, `SECKILL_UNSAFE=`+tc.name+`$`, err.Error())
			require.NotContains(t, err.Error(), safeSecret)
			require.NotContains(t, log, "name="+tc.name)
			for _, accept := range []string{tc.name, "config." + tc.name, "all"} {
				accepting := cfg
				accepting.Unsafe = append([]string{accept}, cfg.Unsafe...)
				log, err := refusal(t, accepting)
				require.NoError(t, err)
				require.Equal(t, 1, strings.Count(log, "level=WARN msg=\"unsafe setting, accepted by SECKILL_UNSAFE\" name="+tc.name+" "), log)
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
	log, err := refusal(t, cfg)
	require.NoError(t, err)
	require.Empty(t, log)
}

func TestUnknownUnsafeNameIsRefused(t *testing.T) {
	t.Parallel()
	cfg := safeConfig()
	cfg.Unsafe = []string{"sandbox", "sandbx", "addr"}
	_, err := cfg.Finish()
	require.ErrorContains(t, err, `--unsafe: "sandbx"`)
	require.ErrorContains(t, err, `--unsafe: "addr"`)
	require.NotContains(t, err.Error(), `--unsafe: "sandbox"`)
}

// TestDoctorAgreesWithServe: the doctor fails exactly the settings that the server refuses, and warns of accepted ones.
func TestDoctorAgreesWithServe(t *testing.T) {
	t.Parallel()
	cfg := safeConfig()
	cfg.RateLimit, cfg.Addr = "off", "127.0.0.1:0"
	cfg, err := cfg.Finish()
	require.NoError(t, err)
	status := map[string]doctor.Status{}
	for _, f := range doctor.Run(t.Context(), []doctor.Group{ConfigToCheck(cfg).Group()}) {
		status[f.Check] = f.Status
	}
	require.Equal(t, doctor.Fail, status["config.rate_limit"])
	require.Equal(t, doctor.Warn, status["config.sandbox"])
	require.Equal(t, doctor.OK, status["config.addr"])
}
