// Package check compares the files beside the program with it and with each other: deployment files, without a container engine, and
// documents.
package check

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestDocumentsNameWhatExists: the files, tests, functions and headings that documents name or link to exist. The changelog
// describes the past.
func TestDocumentsNameWhatExists(t *testing.T) {
	texts, tests := documentsAndTests(t)
	require.Greater(t, len(texts), 10)
	file := regexp.MustCompile("`((?:cmd|internal|deploy|loadtest|docs|test)/[\\w./-]+)`")
	test := regexp.MustCompile(`\bTest[A-Z]\w+`)
	link := regexp.MustCompile(`\]\(([\w./-]*)(?:#([^)\s]+))?\)`)
	// A row of a table in architecture.md: number, file, function.
	step := regexp.MustCompile("(?m)^\\| [\\d–]+ \\| `([\\w./]+\\.go)`[^|]*\\| `(?:\\w+\\.)?(\\w+)` \\|")

	for path, text := range texts {
		for _, m := range file.FindAllStringSubmatch(text, -1) {
			if m[1] != "loadtest/reports" { // written by load tests
				_, err := os.Stat(filepath.Join(root, m[1]))
				assert.NoError(t, err, path)
			}
		}
		for _, name := range test.FindAllString(text, -1) {
			assert.True(t, strings.Contains(tests, "func "+name+"("), "%s names %s", path, name)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
				_, err := os.Stat(target)
				assert.NoError(t, err, "%s links to %s", path, m[0])
			}
			if filepath.Ext(target) == ".md" && m[2] != "" {
				assert.Contains(t, anchors(texts[target]), m[2], "%s links to %s", path, m[0])
			}
		}
		for _, m := range step.FindAllStringSubmatch(text, -1) {
			source, err := os.ReadFile(filepath.Join(root, m[1]))
			require.NoError(t, err, path)
			assert.Regexp(t, `(?m)^func .*\b`+m[2]+`[\[(]`, string(source), m[1])
		}
	}
}

// anchors returns the anchors of a document as GitHub derives them from headings: lower case, no punctuation, hyphens for
// spaces.
func anchors(text string) (found []string) {
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for _, h := range regexp.MustCompile("(?m)^#+ (.+)$").FindAllStringSubmatch(text, -1) {
		found = append(found, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return found
}

// documentsAndTests returns the texts of all Markdown files by path, and all Go tests.
func documentsAndTests(t *testing.T) (documents map[string]string, tests string) {
	t.Helper()
	documents = map[string]string{}
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "data") {
			return filepath.SkipDir
		}
		isTest := strings.HasSuffix(path, "_test.go")
		if !isTest && (filepath.Ext(path) != ".md" || entry.Name() == "CHANGELOG.md" || entry.Name() == "RESULTS.md") {
			return nil
		}
		text, err := os.ReadFile(path)
		if isTest {
			all.Write(text)
		} else {
			documents[path] = string(text)
		}
		return err
	}))
	return documents, all.String()
}

func TestMain(m *testing.M) { rig.Main(m) }

// The program publishes every metric and label that the dashboard and the alerts use.
func TestQueriesUseExistingMetrics(t *testing.T) {
	t.Parallel()

	// Labelled metrics exist after requests.
	p := rig.EmbeddedStack(t).Serve(t)
	sale, token := p.Sale(t, 5), p.LoginToken(t, rig.NewPhone())
	order := p.MustPlace(t, token, sale)
	p.Must(t, rig.Pay(order.ID, token))
	_, err := p.Place(t.Context(), token, sale, "", "")
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
	env.Full(t)
	promtool := env.Program(t, "promtool")
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

// TestTranslationsHaveTheSameCommands: a document and its Chinese translation have the same blocks of code, and link to each
// other. Those of the tour name things in the reader's language; TestTour runs both.
func TestTranslationsHaveTheSameCommands(t *testing.T) {
	translated := env.Must(filepath.Glob(filepath.Join(root, "docs/*.zh-CN.md")))(t)
	require.NotEmpty(t, translated)
	block := regexp.MustCompile("(?ms)^```.*?^```$")

	for _, path := range translated {
		chinese := filepath.Base(path)
		english := strings.TrimSuffix(chinese, ".zh-CN.md") + ".md"
		original, translation := read(t, "docs", english), read(t, "docs", chinese)
		assert.Contains(t, original, "[中文]("+chinese+")")
		assert.Contains(t, translation, "[English]("+english+")")
		if chinese != "tour.zh-CN.md" {
			assert.Equal(t, block.FindAllString(original, -1), block.FindAllString(translation, -1), chinese)
		}
	}
}
