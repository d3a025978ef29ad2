package e2e

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"seckill/internal/app"
	"seckill/internal/ops/doctor"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// This file compares the files beside the program with it and with each other: deployment files, without a container engine,
// and documents.

// The files, tests, functions and headings that documents name or link to exist. The changelog describes the past.
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

// TestProfileNamesTodaysPackages: the compiler ignores the functions of cmd/seckill/default.pgo that it does not find, so a
// profile from before packages were renamed makes the program a tenth slower without a word.
func TestProfileNamesTodaysPackages(t *testing.T) {
	t.Parallel()
	profile := env.Must(os.Open(filepath.Join(root, "cmd/seckill/default.pgo")))(t)
	defer profile.Close()
	names := env.Must(io.ReadAll(env.Must(gzip.NewReader(profile))(t)))(t)

	packages := map[string]bool{}
	for _, m := range regexp.MustCompile(`seckill/(internal/[a-z0-9/]+)\.(\w+|\()`).FindAllStringSubmatch(string(names), -1) {
		if !strings.HasPrefix(m[2], "go") { // the name of a file
			packages[m[1]] = true
		}
	}
	require.Contains(t, packages, "internal/service")
	for dir := range packages {
		require.DirExists(t, filepath.Join(root, dir), "make a new profile: loadtest/README.md")
	}
}

// The program publishes every metric and label that the dashboard and the alerts use.
func TestQueriesUseExistingMetrics(t *testing.T) {
	t.Parallel()

	// Labelled metrics exist after requests.
	p := rig.EmbeddedStack(t).Serve(t)
	sale, token := p.Sale(t, 5), p.LoginToken(t, rig.NewPhone())
	order := p.MustPlace(t, token, sale)
	p.Must(t, rig.Pay(order, token))
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

// docs/operations.md has every event of the program, and the alert that it names for an event uses it.
func TestSecurityEventsAreDocumentedAndAlerted(t *testing.T) {
	exprs, unalerted := queries(t), []string{}
	documented, defined := []string{}, []string{}
	_, section, found := strings.Cut(read(t, "docs/operations.md"), "\n## Security events\n")
	require.True(t, found)
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]+ \\| (?:`(Seckill\\w+)` )?\\|$").FindAllStringSubmatch(section, -1) {
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
// other.
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
		assert.Equal(t, block.FindAllString(original, -1), block.FindAllString(translation, -1), chinese)
	}
}

// root is the root of the repository. Tests run in the directory of their package.
const root = "../.."

func read(t *testing.T, path ...string) string {
	t.Helper()
	return string(env.Must(os.ReadFile(filepath.Join(append([]string{root}, path...)...)))(t))
}

// compose loads docker-compose.yml with all profiles and the output of env.sh for a demo as .env, like `docker compose`.
func compose(t *testing.T) *types.Project { t.Helper(); return composeWith(t, "demo") }

func composeWith(t *testing.T, args ...string) *types.Project {
	t.Helper()
	dotenv := env.Must(exec.Command("sh", append([]string{filepath.Join(root, "deploy/env.sh")}, args...)...).Output())(t)
	envFile := filepath.Join(t.TempDir(), ".env")
	require.NoError(t, os.WriteFile(envFile, dotenv, 0o600))
	project := env.Must(load(t, cli.WithOsEnv, cli.WithEnvFiles(envFile), cli.WithDotEnv, cli.WithProfiles([]string{"*"})))(t)
	require.Len(t, project.Services, 10)
	return project
}

func load(t *testing.T, opts ...cli.ProjectOptionsFn) (*types.Project, error) {
	t.Helper()
	options := env.Must(cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, opts...))(t)
	return options.LoadProject(t.Context())
}

// pinned is a tag with a patch version, or a digest.
var pinned = regexp.MustCompile(`^[\w./-]+(:v?\d+\.\d+\.\d+(-[\w.]+)?|@sha256:[0-9a-f]{64})$`)

func TestStagesArePinned(t *testing.T) {
	stages := regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)(?: AS (\w+))?$`).FindAllStringSubmatch(read(t, "Dockerfile"), -1)
	require.Len(t, stages, 4)
	names := map[string]bool{}
	for _, s := range stages {
		if !names[s[1]] {
			assert.Regexp(t, pinned, s[1], "Dockerfile")
		}
		names[s[2]] = true
	}
}

// TestServices: every service has a pinned image and a health check, is confined, changes no file of the repository, and has no
// secret on its command line, which any process of the machine can read.
func TestServices(t *testing.T) {
	project := compose(t)
	for name, s := range project.Services {
		if s.Build == nil {
			assert.Regexp(t, pinned, s.Image, name)
		}
		require.NotNil(t, s.HealthCheck, name)
		assert.False(t, s.HealthCheck.Disable, name)
		assert.NotEmpty(t, s.HealthCheck.Test, name)
		assert.False(t, s.Privileged, name)
		assert.Equal(t, []string{"ALL"}, s.CapDrop, name)
		assert.True(t, s.ReadOnly, name)
		assert.Positive(t, s.MemLimit, name)
		assert.Positive(t, s.PidsLimit, name)
		if name != "proxy" { // listens on port 443
			assert.Empty(t, s.CapAdd, name)
		}
		assert.Contains(t, s.SecurityOpt, "no-new-privileges:true", name)
		assert.NotEqual(t, "host", s.NetworkMode, name)
		assert.NotContains(t, []string{"root", "0", "0:0"}, s.User, name)
		for _, p := range s.Ports {
			assert.Equal(t, "127.0.0.1", p.HostIP, "%s publishes %s on all interfaces", name, p.Published)
		}
		for dependency, d := range s.DependsOn {
			assert.Equal(t, types.ServiceConditionHealthy, d.Condition, "%s on %s", name, dependency)
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				assert.True(t, v.ReadOnly, "%s may write to %s", name, v.Source)
				assert.DirExists(t, v.Source, name)
			}
		}
		for _, secret := range []string{"SECKILL_REDIS_PASSWORD", "SECKILL_JWT_SECRET"} {
			assert.NotContains(t, strings.Join(s.Command, " "), *project.Services["app"].Environment[secret], name)
		}
	}
}

func TestStateLivesInNamedVolumes(t *testing.T) {
	project := compose(t)
	state := map[string]string{
		"mysql": "/var/lib/mysql", "redis": "/data", "redis-replica": "/data", "prometheus": "/prometheus",
		"grafana": "/var/lib/grafana", "proxy": "/data", "sentinel-1": "/data", "sentinel-2": "/data", "sentinel-3": "/data",
	}
	owner := map[string]string{}
	for name, path := range state {
		volumes := project.Services[name].Volumes
		i := slices.IndexFunc(volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == path })
		require.GreaterOrEqual(t, i, 0, "%s has no volume for %s", name, path)
		source := volumes[i].Source
		assert.Empty(t, owner[source], "%s has the volume of another service", name)
		owner[source] = name
		assert.Equal(t, types.VolumeTypeVolume, volumes[i].Type, name)
		assert.Contains(t, project.Volumes, source, name)
	}
}

// TestOpsPortStaysPrivate: only Prometheus shares the network at whose address the app has its private port.
func TestOpsPortStaysPrivate(t *testing.T) {
	project := compose(t)
	service := project.Services["app"]
	opsHost, opsPort, _ := strings.Cut(*service.Environment["SECKILL_OPS_ADDR"], ":")
	require.NotNil(t, service.Networks["metrics"], "no address of its own")
	assert.Equal(t, []string{opsHost}, service.Networks["metrics"].Aliases)
	for name, s := range project.Services {
		if _, reaches := s.Networks["metrics"]; name != "app" && name != "prometheus" {
			assert.False(t, reaches, name)
		}
	}
	for _, p := range service.Ports {
		assert.NotEqual(t, opsPort, strconv.Itoa(int(p.Target)))
	}
	assert.Contains(t, read(t, "deploy/prometheus/prometheus.yml"), `"app:`+opsPort+`"`)
	for network := range compose(t).Services["grafana"].Networks {
		assert.NotContains(t, service.Networks, network, "Grafana needs the data of Prometheus only")
	}
}

// TestProfiles: each profile adds its services to those that always run. The app finds the Sentinels of the example in
// docs/operations.md, and trusts the proxy.
func TestProfiles(t *testing.T) {
	project := compose(t)
	profiles := map[string][]string{}
	for name, s := range project.Services {
		require.LessOrEqual(t, len(s.Profiles), 1)
		profile := strings.Join(s.Profiles, "")
		profiles[profile] = append(profiles[profile], name)
		slices.Sort(profiles[profile])
	}
	require.Equal(t, map[string][]string{
		"":              {"app", "mysql", "redis"},
		"observability": {"grafana", "prometheus"},
		"sentinel":      {"redis-replica", "sentinel-1", "sentinel-2", "sentinel-3"},
		"tls":           {"proxy"},
	}, profiles)
	master := regexp.MustCompile(`sentinel monitor (\w+) redis 6379 2`).FindStringSubmatch(project.Services["sentinel-1"].Command[2])
	require.NotNil(t, master)
	require.Contains(t, read(t, "docs/operations.md"),
		"\nSECKILL_REDIS_ADDRS=sentinel-1:26379,sentinel-2:26379,sentinel-3:26379\nSECKILL_REDIS_SENTINEL="+master[1]+"\n")
	requireProxyAddress(t, project)
	require.Regexp(t, `(?s)reverse_proxy app:8080 \{.*header_up -traceparent`, read(t, "deploy/caddy/Caddyfile"))
}

// requireProxyAddress requires that the proxy has the address that the app trusts, and that Docker gives this address to no
// other container: those of the ip_range go to the containers in the order of their start, and the gateway has its own.
func requireProxyAddress(t *testing.T, project *types.Project) {
	t.Helper()
	trusted := *project.Services["app"].Environment["SECKILL_TRUSTED_PROXIES"]
	require.Equal(t, trusted, project.Services["proxy"].Networks["edge"].Ipv4Address)

	require.Len(t, project.Networks["edge"].Ipam.Config, 1)
	pool := project.Networks["edge"].Ipam.Config[0]
	address := netip.MustParseAddr(trusted)
	subnet := netip.MustParsePrefix(pool.Subnet)
	require.True(t, subnet.Contains(address))
	require.NotEmpty(t, pool.IPRange, "Docker gives any address of the subnet to the app, which starts first")
	others := netip.MustParsePrefix(pool.IPRange)
	require.True(t, subnet.Contains(others.Addr()))
	require.False(t, others.Contains(address))
	require.NotEqual(t, trusted, pool.Gateway)
}

// TestEdgeNetworkIsASetting: a second project, or a VPN, may use the addresses.
func TestEdgeNetworkIsASetting(t *testing.T) {
	t.Setenv("EDGE_NETWORK", "10.99.7")
	project := composeWith(t, "demo")
	requireProxyAddress(t, project)
	require.Equal(t, "10.99.7.0/28", project.Networks["edge"].Ipam.Config[0].Subnet)
}

func TestSecretsHaveNoDefault(t *testing.T) {
	env.Fails(load(t, cli.WithEnv([]string{"MYSQL_PASSWORD=x", "MYSQL_ROOT_PASSWORD=x", "SECKILL_REDIS_PASSWORD=x"})))(t, "SECKILL_JWT_SECRET")

	a, b := compose(t).Services["app"].Environment, compose(t).Services["app"].Environment
	for _, name := range []string{"SECKILL_JWT_SECRET", "SECKILL_REDIS_PASSWORD", "SECKILL_MYSQL_DSN"} {
		assert.GreaterOrEqual(t, len(*a[name]), 32, name)
		assert.NotEqual(t, *a[name], *b[name], "%s is the same in every .env", name)
	}
}

// TestEnvOfDemoAndProduction: the server accepts the settings of the .env of a demo, by their names only. Without the argument
// demo, the .env neither is a demo nor accepts any unsafe setting, and the server refuses what only the operator can supply.
func TestEnvOfDemoAndProduction(t *testing.T) {
	demo := compose(t).Services["app"].Environment
	require.Equal(t, []string{"demo", "sandbox"}, refused(t, demo, ""))
	require.Equal(t, "demo,sandbox", *demo["SECKILL_UNSAFE"])
	require.Empty(t, refused(t, demo, *demo["SECKILL_UNSAFE"]))

	production := composeWith(t).Services["app"].Environment
	require.Equal(t, "false", *production["SECKILL_DEMO"])
	require.Empty(t, *production["SECKILL_UNSAFE"])
	require.Equal(t, []string{"codes", "sandbox"}, refused(t, production, ""))
}

// refused returns the settings in the environment of a container that the server refuses.
func refused(t *testing.T, vars types.MappingWithEquals, unsafe string) (failed []string) {
	t.Helper()
	var cfg app.Config
	parser := env.Must(kong.New(&cfg))(t)
	var args []string
	for name, value := range vars {
		if strings.HasPrefix(name, "SECKILL_") && *value != "" && name != "SECKILL_UNSAFE" && name != "SECKILL_OPS_ADDR" { // all addresses, private in this container
			args = append(args, "--"+strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "SECKILL_")), "_", "-")+"="+*value)
		}
	}
	env.Must(parser.Parse(append(args, "--unsafe="+unsafe)))(t)
	cfg = env.Must(cfg.Finish())(t)
	for _, f := range doctor.Run(t.Context(), []doctor.Group{app.SettingsChecks(cfg)}) {
		if f.Status == doctor.Fail {
			failed = append(failed, strings.TrimPrefix(f.Check, "config."))
		}
	}
	return failed
}

// The program ignores unknown variables silently.
func TestVariablesExist(t *testing.T) {
	known := configured(t)
	require.Contains(t, known, "SECKILL_ADDR")
	for _, file := range []string{"docker-compose.yml", "Dockerfile", "deploy/env.sh", "loadtest/run.sh"} {
		for _, name := range regexp.MustCompile(`\bSECKILL_[A-Z_]+`).FindAllString(read(t, file), -1) {
			assert.Contains(t, known, name, file)
		}
	}
}

// TestChartHasAllSettings: the chart has a value for every setting that is neither a secret nor a part of its pods, and for
// no other: a misspelled setting is refused.
func TestChartHasAllSettings(t *testing.T) {
	var schema struct {
		Properties struct {
			Settings struct {
				PropertyNames struct{ Enum []string }
			}
			SecretKeys struct{ Properties map[string]any }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, "deploy/helm/seckill/values.schema.json")), &schema))
	helpers := read(t, "deploy/helm/seckill/templates/_helpers.tpl")
	var want []string
	for name := range configured(t) {
		setting := strings.TrimPrefix(name, "SECKILL_")
		switch {
		case name == "" || setting == "DATA_DIR": // used by the embedded database only
		case strings.Contains(helpers, "SECKILL_"+setting+",") || strings.Contains(helpers, `"`+setting+`"`) || strings.Contains(helpers, `"`+setting+`_FILE"`):
		default:
			want = append(want, setting)
		}
	}
	assert.ElementsMatch(t, want, schema.Properties.Settings.PropertyNames.Enum)
	for key := range schema.Properties.SecretKeys.Properties {
		assert.Contains(t, helpers, `"`+key+`" "`)
	}
	for _, m := range regexp.MustCompile(`"(\w+)_FILE"`).FindAllStringSubmatch(helpers, -1) {
		assert.Contains(t, configured(t), "SECKILL_"+m[1])
	}
}

func configured(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	fields := reflect.TypeFor[app.Config]()
	for i := range fields.NumField() {
		known[fields.Field(i).Tag.Get("env")] = true
	}
	return known
}

const unitFile = "deploy/systemd/seckill.service"

// TestSystemdUnit: the unit waits for the end of the server as long as the containers, whose drain time is the same.
func TestSystemdUnit(t *testing.T) {
	stop := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(read(t, unitFile))
	require.NotNil(t, stop)
	require.Equal(t, compose(t).Services["app"].StopGracePeriod.String(), stop[1]+"s")
}

// TestSystemdKnowsUnit: systemd accepts every line of the unit.
func TestSystemdKnowsUnit(t *testing.T) {
	env.Full(t)

	// The program must exist.
	self := env.Must(os.Executable())(t)
	file := filepath.Join(t.TempDir(), "seckill.service")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(read(t, unitFile), "/usr/local/bin/seckill", self, 1)), 0o600))

	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "seckill.service")
}
