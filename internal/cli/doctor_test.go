package cli

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/ops/doctor"
)

// TestDoctorMasksSecrets checks that every secret is masked. Package doctor has the texts in which.
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
}

// TestDoctorChecksAreDocumented compares the checks with docs/checks.md, in both directions.
func TestDoctorChecksAreDocumented(t *testing.T) {
	t.Parallel()
	checks := map[string]bool{}
	for _, cfg := range []app.Config{
		{Addr: ":0", DataDir: t.TempDir()},
		{Addr: ":0", DataDir: t.TempDir(), MySQLDSN: "u@tcp(127.0.0.1:1)/d", RedisAddrs: []string{"127.0.0.1:1"}},
		{Addr: ":0", DataDir: t.TempDir(), LockNodes: []string{"zk://127.0.0.1:1"}},
		{Addr: ":0", DataDir: t.TempDir(), RedisAddrs: []string{"127.0.0.1:1"}, RedisSentinel: "mymaster"},
	} {
		x := newExamination(&app.Env{Ctx: t.Context(), Config: cfg}, 1)
		for _, g := range x.groups(t.Context()) {
			for _, c := range append(g.Checks, g.Reach) {
				checks[c.Name] = true
			}
		}
		x.close()
	}
	text, err := os.ReadFile("../../docs/checks.md")
	require.NoError(t, err)
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+\\.[a-z_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1])
	}
	delete(checks, "") // of a group without Reach
	require.ElementsMatch(t, slices.Collect(maps.Keys(checks)), documented)
}

func TestCountHasSingularAndPlural(t *testing.T) {
	require.Equal(t, "0 violations", count(0, "violation"))
	require.Equal(t, "1 violation", count(1, "violation"))
	require.Equal(t, "2 violations", count(2, "violation"))
}

func TestProgressEstimatesRest(t *testing.T) {
	var out bytes.Buffer
	printProgress(&out, 0, 400, 0, time.Second)
	printProgress(&out, 100, 400, 20, 2*time.Second)
	printProgress(&out, 400, 400, 80, 8*time.Second)
	require.Equal(t, "  0 of 400 answered, 0 orders\n  100 of 400 answered, 20 orders, about 6s left\n  400 of 400 answered, 80 orders\n", out.String())
}

// The largest lobby that --size allows has an order of 16 GiB, which the command must not compute for one position.
func TestPositionInLargestLobby(t *testing.T) {
	code, stdout, stderr := run(t, "room", "verify", "--seed", strings.Repeat("7", 64), "--size", "4294967295", "--number", "4")
	require.Zero(t, code, stderr)
	require.Equal(t, "position 212924937 of 4294967295\n", stdout)
}
