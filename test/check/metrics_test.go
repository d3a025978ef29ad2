package check_test

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

func TestMain(m *testing.M) { rig.Main(m) }

// The program publishes every metric and label that the dashboard and the alerts use.
func TestQueriesUseExistingMetrics(t *testing.T) {
	t.Parallel()

	// Labelled metrics exist after requests.
	p := rig.EmbeddedStack(t).Serve(t)
	sale, token := p.Sale(t, 5), p.LoginToken(t, rig.NewPhone())
	order := p.MustPlace(t, token, sale)
	p.Must(t, rig.Pay(order.ID, token))
	_, err := p.Place(t.Context(), token, sale)
	require.Error(t, err, "the second order of a user")
	p.Scrape(t)

	names := map[string]bool{"up": true, "instance": true, "job": true} // from Prometheus
	for _, m := range regexp.MustCompile(`(?m)^(\w+)[{ ]|(\w+)="`).FindAllStringSubmatch(p.Metrics, -1) {
		names[m[1]+m[2]] = true
	}
	// A name is followed by neither a word nor a parenthesis; labels also stand in by (...).
	quoted := regexp.MustCompile(`"[^"]*"|\[\w+\]|offset \w+`)
	for where, expr := range queries(t) {
		used := regexp.MustCompile(`\b(seckill|go|process)_\w+|\b\w+\s*(=|!=|=~)"|by \(.*?\)`)
		require.Regexp(t, `\b(seckill|go|process)_\w+|\bup\b`, expr, where)
		for _, text := range used.FindAllString(quoted.ReplaceAllString(expr, `"`), -1) {
			for _, name := range regexp.MustCompile(`\w+`).FindAllString(strings.TrimPrefix(text, "by "), -1) {
				assert.True(t, names[name], "%s: the program has neither a metric nor a label %s", where, name)
			}
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
	for _, args := range [][]string{{"check", "rules", "../../deploy/prometheus/alerts.yml"}, {"test", "rules", "../../deploy/prometheus/alerts_test.yml"}} {
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
