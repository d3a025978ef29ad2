package cli

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/doctor"
)

// TestDoctorMasksSecrets checks that secrets are masked in the texts of drivers and servers only. Masking them in the
// program's own texts would reveal a password that is one of their words.
func TestDoctorMasksSecrets(t *testing.T) {
	t.Parallel()
	secrets := secretsOf(app.Config{MySQLDSN: "u:dsnpassword@tcp(h:1)/d", RedisPassword: "redispassword", JWTSecret: "tokensecret", PaymentSecret: "paymentsecret"})
	require.Len(t, secrets, 4)
	var findings []doctor.Finding
	for _, s := range secrets {
		findings = append(findings, doctor.Finding{Check: "c", Result: doctor.FromError(doctor.Fail, "change it", "the server said ", errors.New(s))})
	}
	var out strings.Builder
	require.NoError(t, newDoctorReport(findings, secrets).print(&out))
	for _, s := range secrets {
		require.NotContains(t, out.String(), s)
	}
	require.Contains(t, out.String(), "the server said ***")

	own := doctor.Bad(doctor.Warn, "set redis", "redis is old")
	report := newDoctorReport([]doctor.Finding{{Result: own}}, []string{"redis"})
	require.Equal(t, own, report.Findings[0].Result)
}

// TestDoctorChecksAreDocumented compares the checks with docs/doctor.md, in both directions.
func TestDoctorChecksAreDocumented(t *testing.T) {
	t.Parallel()
	var names []string
	for _, cfg := range []app.Config{
		{Addr: ":0", DataDir: t.TempDir()},
		{Addr: ":0", DataDir: t.TempDir(), MySQLDSN: "u@tcp(127.0.0.1:1)/d", RedisAddrs: []string{"127.0.0.1:1"}},
		{Addr: ":0", DataDir: t.TempDir(), LockNodes: []string{"zk://127.0.0.1:1"}},
		{Addr: ":0", DataDir: t.TempDir(), RedisAddrs: []string{"127.0.0.1:1"}, RedisSentinel: "mymaster"},
	} {
		x := newExamination(&app.Env{Ctx: t.Context(), Config: cfg}, 1)
		for _, name := range doctor.Names(x.groups(t.Context())) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		x.close()
	}
	text, err := os.ReadFile("../../docs/doctor.md")
	require.NoError(t, err)
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+\\.[a-z_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1])
	}
	require.ElementsMatch(t, names, documented, fmt.Sprintf("%d checks", len(names)))
}
