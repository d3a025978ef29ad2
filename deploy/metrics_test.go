package deploy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"seckill/internal/app"
	"seckill/internal/cli"
	"seckill/internal/rush"
	"seckill/test/testenv"
)

// The program must publish every metric and label that the dashboard and the alerts use.
func TestQueriesUseExistingMetrics(t *testing.T) {
	metrics, labels := scrape(t)
	assert.True(t, metrics["seckill_build_info"] && labels["version"] && labels["goversion"])
	metrics["up"] = true // from Prometheus
	for _, l := range []string{"instance", "job"} {
		labels[l] = true
	}
	for where, expr := range queries(t) {
		q := parseQuery(expr)
		assert.NotEmpty(t, q.metrics, "%s: %s", where, expr)
		for _, m := range q.metrics {
			assert.True(t, metrics[m], "%s: the program has no metric %s", where, m)
		}
		for _, l := range q.labels {
			assert.True(t, labels[l], "%s: no metric of the program has a label %s", where, l)
		}
	}
}

// TestSecurityEventsAreDocumentedAndAlerted: docs/security.md has every event of the program, and the alert that it names
// for an event uses it.
func TestSecurityEventsAreDocumentedAndAlerted(t *testing.T) {
	exprs, unalerted := queries(t), []string{}
	documented, defined := []string{}, []string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]+ \\| (?:`(Seckill\\w+)` )?\\|$").FindAllStringSubmatch(read(t, "docs/security.md"), -1) {
		event, alert := row[1], row[2]
		documented = append(documented, event)
		if alert == "" {
			unalerted = append(unalerted, event)
			continue
		}
		assert.Regexp(t, `[|"]`+event+`[|"]`, exprs["alert "+alert], "%s of %s", alert, event)
	}
	for _, m := range regexp.MustCompile(`securityEvent = "(\w+)"`).FindAllStringSubmatch(read(t, "internal/handler/security.go"), -1) {
		defined = append(defined, m[1])
	}
	assert.ElementsMatch(t, defined, documented)
	assert.ElementsMatch(t, []string{"login", "token_refused", "account_erased"}, unalerted, "ordinary events")
}

// TestAlertRules runs the unit tests of the alerts, which must show of every alert that it fires and that it is silent.
func TestAlertRules(t *testing.T) {
	testenv.Full(t)
	promtool := testenv.Program(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "prometheus/alerts.yml"}, {"test", "rules", "prometheus/alerts_test.yml"}} {
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	var rules struct {
		Tests []struct {
			Checks []struct {
				Expr    string
				Samples []struct{ Value float64 } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "deploy/prometheus/alerts_test.yml")), &rules))
	fires, silent, known := map[string]bool{}, map[string]bool{}, 0
	alert := regexp.MustCompile(`alertname="(\w+)", alertstate="firing"`)
	for _, block := range rules.Tests {
		for _, check := range block.Checks {
			name := alert.FindStringSubmatch(check.Expr)
			require.NotNil(t, name, check.Expr)
			fires[name[1]] = fires[name[1]] || check.Samples[0].Value == 1
			silent[name[1]] = silent[name[1]] || check.Samples[0].Value == 0
		}
	}
	for where := range queries(t) {
		if name, ok := strings.CutPrefix(where, "alert "); ok {
			known++
			assert.True(t, fires[name], "no test in which %s fires", name)
			assert.True(t, silent[name], "no test in which %s is silent", name)
		}
	}
	assert.Len(t, silent, known, "tests of alerts that do not exist")
}

func TestParseQuery(t *testing.T) {
	q := parseQuery(`sum by (le, route) (rate(a_total{job="x", status=~"5.."}[5m])) / b offset 10m > bool 0.5 or absent(up)`)
	assert.Equal(t, []string{"a_total", "b", "up"}, q.metrics)
	assert.Equal(t, []string{"le", "route", "job", "status"}, q.labels)
}

// queries returns the PromQL of the dashboard and of the alerts by location.
func queries(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	var dashboard struct {
		Panels []struct {
			Type    string
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, "deploy/grafana/dashboards/seckill.json")), &dashboard))
	for _, p := range dashboard.Panels {
		assert.True(t, p.Type == "row" || len(p.Targets) > 0, "panel %q has no query", p.Title)
		for _, target := range p.Targets {
			found["panel "+p.Title+" "+target.RefID] = target.Expr
		}
	}
	var alerts struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "deploy/prometheus/alerts.yml")), &alerts))
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			found["alert "+r.Alert] = r.Expr
		}
	}
	require.Greater(t, len(found), 20)
	return found
}

type query struct{ metrics, labels []string }

var (
	quoted    = regexp.MustCompile(`"[^"]*"`)
	matcher   = regexp.MustCompile(`\{([^}]*)\}`)
	grouping  = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	duration  = regexp.MustCompile(`\[[^\]]*\]|\boffset\s+\w+`)
	word      = regexp.MustCompile(`[A-Za-z_:][\w:]*\s*\(?`)
	labelName = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// parseQuery returns the names in PromQL. It supports only the part of the language that the queries use.
func parseQuery(expr string) (q query) {
	expr = duration.ReplaceAllString(quoted.ReplaceAllString(expr, ""), "")
	for _, part := range []*regexp.Regexp{grouping, matcher} {
		for _, m := range part.FindAllStringSubmatch(expr, -1) {
			q.labels = append(q.labels, labelName.FindAllString(m[1], -1)...)
		}
		expr = part.ReplaceAllString(expr, " ")
	}
	for _, w := range word.FindAllString(expr, -1) {
		switch name := strings.TrimSpace(w); {
		case strings.HasSuffix(name, "("): // a function or an aggregation
		case name == "sum" || name == "max" || name == "min" || name == "avg" || name == "count": // before its by (...)
		case name == "and" || name == "or" || name == "unless" || name == "bool":
		default:
			q.metrics = append(q.metrics, name)
		}
	}
	return q
}

// scrape runs the program on its embedded default, sends some requests so that labelled metrics exist, and returns the
// names of its metrics and labels.
func scrape(t *testing.T) (metrics, labels map[string]bool) {
	t.Helper()
	url, ops := serve(t)
	client, err := rush.NewClient(url, 1)
	require.NoError(t, err)
	defer client.Close()
	token, err := client.Login(t.Context(), "13800000001")
	require.NoError(t, err)
	const demoSale = "2"
	order, err := client.Place(t.Context(), token, demoSale)
	require.NoError(t, err)
	pay(t, url, token, order.ID)
	_, err = client.Place(t.Context(), token, demoSale)
	require.Error(t, err, "the second order of a user")

	res, err := http.Get(ops + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	metrics, labels = map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, "{")
		name, _, _ = strings.Cut(name, " ")
		metrics[name] = true
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(rest, -1) {
			labels[l[1]] = true
		}
	}
	return metrics, labels
}

// pay requests the payment of an order.
func pay(t *testing.T, url, token, order string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/orders/"+order+"/pay", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
}

// envRun makes the test binary run the program, which saves a build.
const envRun = "RUN_SECKILL"

func TestMain(m *testing.M) {
	if os.Getenv(envRun) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		code := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, app.Tuning{})
		stop()
		os.Exit(code)
	}
	testenv.Main(m, func() error {
		http.DefaultClient.CloseIdleConnections()
		return goleak.Find()
	})
}

// serve starts the program. It returns the URLs of its API and of its metrics.
func serve(t *testing.T) (public, ops string) {
	t.Helper()
	bin, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(bin, "serve")
	cmd.Env = append(withoutSettings(os.Environ()), envRun+"=1",
		"SECKILL_ADDR=127.0.0.1:0", "SECKILL_OPS_ADDR=127.0.0.1:0", "SECKILL_DATA_DIR="+t.TempDir())
	read, write, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = write, write
	require.NoError(t, cmd.Start())
	require.NoError(t, write.Close())
	t.Cleanup(func() {
		assert.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		assert.NoError(t, cmd.Wait())
	})
	lines := make(chan string)
	go func() { // ends when the program exits and closes the pipe
		defer close(lines)
		defer read.Close()
		for s := bufio.NewScanner(read); s.Scan(); {
			lines <- s.Text()
		}
	}()
	public, ops = addresses(t, lines)
	go func() {
		for range lines { // the program must not block on a full pipe
		}
	}()
	return public, ops
}

func addresses(t *testing.T, lines <-chan string) (public, ops string) {
	t.Helper()
	listens := regexp.MustCompile(`^seckill listens on (http://\S+)`)
	private := regexp.MustCompile(`msg="metrics and profiles" addr=(\S+)`)
	deadline := time.After(time.Minute)
	for public == "" || ops == "" {
		select {
		case <-deadline:
			require.FailNow(t, "the program did not print its addresses within a minute")
		case line, ok := <-lines:
			require.True(t, ok, "the program exited at startup")
			if m := listens.FindStringSubmatch(line); m != nil {
				public = m[1]
			}
			if m := private.FindStringSubmatch(line); m != nil {
				ops = "http://" + m[1]
			}
		}
	}
	return public, ops
}

// withoutSettings removes the caller's settings from the environment of the program under test.
func withoutSettings(env []string) (rest []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, "SECKILL_") {
			rest = append(rest, e)
		}
	}
	return rest
}
