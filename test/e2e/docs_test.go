package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
	"seckill/test/env/servers"
)

// httpFile is a file of HTTP requests: variables, then requests separated by lines with ###.
type httpFile struct {
	vars     map[string]string
	requests []httpRequest
}

// httpRequest is a request with unresolved variables.
type httpRequest struct {
	title, name string
	method, url string
	header      [][2]string
	body        string
	status      int    // expected
	want        string // a text that the body must contain
}

var (
	fileVariable = regexp.MustCompile(`^@(\w+) = (.+)$`)
	expectation  = regexp.MustCompile(`^# expect (\d{3})(?: (.+))?$`)
	reference    = regexp.MustCompile(`\{\{([^{}]+)\}\}`)
	fromAnswer   = regexp.MustCompile(`^(\w+)\.response\.(?:body\.\$\.([\w.]+)|headers\.([\w-]+))$`)
)

// parseHTTP parses a file in the format of the REST Client extension.
func parseHTTP(t *testing.T, text string) httpFile {
	t.Helper()
	f := httpFile{vars: map[string]string{}}
	head, rest, _ := strings.Cut(text, "\n### ")
	for line := range strings.SplitSeq(head, "\n") {
		if m := fileVariable.FindStringSubmatch(line); m != nil {
			f.vars[m[1]] = m[2]
		} else {
			require.True(t, line == "" || line[0] == '#', line)
		}
	}
	for block := range strings.SplitSeq(rest, "\n### ") {
		head, body, _ := strings.Cut(strings.TrimSpace(block), "\n\n")
		lines := strings.Split(head, "\n")
		r := httpRequest{title: lines[0], body: body}
		for _, line := range lines[1:] {
			name, isName := strings.CutPrefix(line, "# @name ")
			expect := expectation.FindStringSubmatch(line)
			field, value, isHeader := strings.Cut(line, ": ")
			switch {
			case isName:
				r.name = name
			case expect != nil:
				r.status, _ = strconv.Atoi(expect[1])
				r.want = expect[2]
			case strings.HasPrefix(line, "#"):
			case r.method == "":
				r.method, r.url, _ = strings.Cut(line, " ")
			default:
				require.True(t, isHeader, "%s: %s", r.title, line)
				r.header = append(r.header, [2]string{field, value})
			}
		}
		require.NotZero(t, r.status, "%s: no expected status", r.title)
		f.requests = append(f.requests, r)
	}
	return f
}

// httpRun sends the requests of a file and stores the responses of the named ones.
type httpRun struct {
	t       *testing.T
	vars    map[string]string
	answers map[string]rig.Answer
}

func (h *httpRun) fill(text string) string {
	return reference.ReplaceAllStringFunc(text, func(ref string) string {
		name := ref[2 : len(ref)-2]
		if value, ok := h.vars[name]; ok {
			return h.fill(value)
		}
		m := fromAnswer.FindStringSubmatch(name)
		require.NotNil(h.t, m, "%s: unknown variable", ref)
		a, ok := h.answers[m[1]]
		require.True(h.t, ok, "%s: no earlier request has this name", ref)
		value := a.Header.Get(m[3])
		if m[2] != "" {
			var node any
			require.NoError(h.t, json.Unmarshal([]byte(a.Text), &node), "%s: %s", ref, a.Text)
			for field := range strings.SplitSeq(m[2], ".") {
				object, _ := node.(map[string]any)
				node = object[field]
			}
			value, _ = node.(string)
		}
		require.NotEmpty(h.t, value, "%s: not in response %s %s", ref, a.Status, a.Text)
		return value
	})
}

func (h *httpRun) send(r *httpRequest) rig.Answer {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), r.method, h.fill(r.url), strings.NewReader(h.fill(r.body)))
	require.NoError(h.t, err, r.title)
	for _, pair := range r.header {
		req.Header.Set(pair[0], h.fill(pair[1]))
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(h.t, err, r.title)
	defer res.Body.Close()
	body, err := readAnswer(res)
	require.NoError(h.t, err, r.title)
	return rig.Answer{Status: res.StatusCode, Header: res.Header, Text: string(body)}
}

// readAnswer reads a body. Of an event stream, which may never end, it reads the first event.
func readAnswer(res *http.Response) ([]byte, error) {
	if res.Header.Get("Content-Type") != "text/event-stream" {
		return io.ReadAll(res.Body)
	}
	var event []byte
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadBytes('\n')
		event = append(event, line...)
		if err != nil || len(bytes.TrimSpace(line)) == 0 && bytes.Contains(event, []byte("data:")) {
			return event, err
		}
	}
}

// check sends a request and requires the expected response. For up to a minute it repeats a request that is answered 503,
// and a GET until the body contains the expected text.
func (h *httpRun) check(r *httpRequest) {
	h.t.Helper()
	var a rig.Answer
	rig.Eventually(h.t, r.title+" has another answer than 503, and "+r.want, func() bool {
		a = h.send(r)
		busy := r.status != http.StatusServiceUnavailable && a.Busy()
		early := r.method == http.MethodGet && a.Status == r.status && !strings.Contains(a.Text, r.want)
		return !busy && !early
	})
	// On a busy machine the order may be confirmed after the wait of the request.
	if r.status == http.StatusCreated && a.Status == http.StatusAccepted {
		a = h.confirmed(r, a)
	}
	require.Equal(h.t, r.status, a.Status, "%s: %s", r.title, a.Text)
	require.Contains(h.t, a.Text, r.want, r.title)
	if r.name != "" {
		h.answers[r.name] = a
	}
}

// confirmed waits until a queued order is committed and returns its representation.
func (h *httpRun) confirmed(r *httpRequest, queued rig.Answer) (a rig.Answer) {
	h.t.Helper()
	show := httpRequest{title: r.title, method: http.MethodGet, url: "{{base}}" + queued.Header.Get("Location"), header: r.header}
	rig.Eventually(h.t, r.title, func() bool {
		a = h.send(&show)
		return a.Status == http.StatusOK && strings.Contains(a.Text, `"status":"pending_payment"`)
	})
	a.Status = r.status
	return a
}

// TestAPIFile sends every request of docs/api.http from top to bottom in every lane. TestDocumentHasEveryRoute of package handler shows
// that it has every route.
func TestAPIFile(t *testing.T) {
	f := parseHTTP(t, read(t, "docs/api.http"))
	require.Greater(t, len(f.requests), 40)
	rig.Core("lock/embedded", "batch/embedded", "queue/embedded").Raced("lock/embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		vars := maps.Clone(f.vars)
		vars["base"] = p.URL
		run := &httpRun{t: t, vars: vars, answers: map[string]rig.Answer{}}
		for i := range f.requests {
			run.check(&f.requests[i])
		}
	})
}

// tourBlock matches a block of commands, and the block of what they print, if that follows.
var tourBlock = regexp.MustCompile("(?s)```sh\n(.*?)```\n(?:\n```text\n(.*?)```\n)?")

// TestTour runs the commands of the tour in docs/hmdp.md, and compares what they print. The commands of terminal 1 run beside all
// others. TestTranslationsHaveTheSameCommands compares them with those of the translation.
func TestTour(t *testing.T) {
	env.FullParallel(t)
	_, tour, found := strings.Cut(read(t, "docs/hmdp.md"), "\n## A tour of ten minutes\n")
	require.True(t, found)
	tour, _, _ = strings.Cut(tour, "\n## ")

	addr := env.FreeAddr(t)
	blocks := tourBlock.FindAllStringSubmatch(strings.ReplaceAll(tour, "127.0.0.1:8080", addr), -1)
	require.Len(t, blocks, 7)
	shell := newcomer(t, addr)

	server := shell(blocks[0][1])
	var log env.Buffer
	server.Stdout, server.Stderr = &log, &log
	require.NoError(t, server.Start())
	defer func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	}()
	rig.Eventually(t, "the server listens", func() bool {
		return strings.Contains(log.String(), "seckill listens on") && strings.Contains(log.String(), "/docs")
	})
	requirePrinted(t, blocks[0], log.String())

	var script strings.Builder // one shell, because later steps use the functions and variables of earlier ones
	for _, b := range blocks[1:] {
		fmt.Fprintf(&script, "%s\necho '%s'\n", b[1], endOfBlock)
	}
	out := env.Must(shell(script.String()).CombinedOutput())(t)
	printed := strings.Split(string(out), endOfBlock+"\n")
	require.Len(t, printed, len(blocks), string(out))
	for i, b := range blocks[1:] {
		requirePrinted(t, b, printed[i])
	}
}

const endOfBlock = "---- end of the block"

// requirePrinted requires the lines of a block in this order, between which others may be. … stands for any text.
func requirePrinted(t *testing.T, block []string, printed string) {
	t.Helper()
	rest := strings.Split(printed, "\n")
	for want := range strings.Lines(block[2]) {
		want = strings.TrimRight(want, "\n")
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$")
		found := 0
		for found < len(rest) && !pattern.MatchString(strings.TrimRight(rest[found], " ")) {
			found++
		}
		require.Less(t, found, len(rest), "%q is not printed by\n%s\nwhich prints\n%s", want, block[1], printed)
		rest = rest[found+1:]
	}
}

// newcomer returns a function for commands that run a script in an empty folder, for a server at addr. Their go command builds
// the program without compiling it.
func newcomer(t *testing.T, addr string) func(script string) *exec.Cmd {
	t.Helper()
	folder, bin := t.TempDir(), t.TempDir()
	exe := env.Must(os.Executable())(t) // this test, which is the program if EnvRunMain is set
	const builder = "#!/bin/sh\n" + `[ "$*" = "build -tags nomsgpack -o seckill ./cmd/seckill" ] && ln -s "$SECKILL_EXE" seckill` + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte(builder), 0o755)) //nolint:gosec // only this test uses it

	return func(script string) *exec.Cmd {
		script = strings.Replace(script, "\n./seckill\n", "\nexec ./seckill\n", 1) // so that the server receives the signal of the test
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = folder
		cmd.Env = []string{
			rig.EnvRunMain + "=1", "SECKILL_EXE=" + exe, "SECKILL_ADDR=" + addr, "PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
		}
		return cmd
	}
}

// The units of the sale in TestBackupAndRestore, and how many orders are placed before, during and after the backup.
const (
	unitsToSell = 30
	soldBefore  = 10
	soldDuring  = 5
	soldAfter   = 5
)

// TestBackupAndRestore runs the commands of docs/operations.md: a shop sells, is backed up, sells more, and loses
// everything. On another machine it is restored, and sells the rest.
func TestBackupAndRestore(t *testing.T) {
	env.FullParallel(t)

	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		env.UsesSQLite(t)
		env.Program(t, "sqlite3")
		o := newOperator(t)
		o.moveTo(t, &rig.Stack{Lane: "lock", Env: []string{"SECKILL_DATA_DIR=" + o.path("/var/lib/seckill")}})
		o.systemctl(t, "start", "seckill")
		shop := openShop(t, o)

		shop.sell(t, soldBefore)
		shop.backUpInMidRush(t, "SQLite")
		kept := shop.orders
		shop.sell(t, soldAfter)
		shop.moveOn(t)

		o.server.Kill()
		require.NoError(t, os.RemoveAll(o.path("/var/lib/seckill")))
		shop.requireReopened(t, o.run(t, "Restore", "A file of SQLite", "Skip ids: SQLite", "Start and check"), kept)
	})

	for _, kind := range env.Kinds(t) {
		for name, restore := range map[string]func(*testing.T, *operator, *backedUpShop){
			"dump and queue": restoreDumpAndQueue,
			"binary log":     restoreBinaryLog,
			"database alone": restoreDatabaseAlone,
		} {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				t.Parallel()
				env.Program(t, "mariadb-dump")
				env.Program(t, "redis-cli")
				o := newOperator(t)
				o.moveTo(t, newMachine(t, kind))
				o.systemctl(t, "start", "seckill")
				shop := openShop(t, o)
				shop.sell(t, soldBefore)
				restore(t, o, shop)
			})
		}
	}
}

// restoreDumpAndQueue: the orders during the backup are in the queue until it is complete. The file of Redis alone has them.
func restoreDumpAndQueue(t *testing.T, o *operator, shop *backedUpShop) {
	shop.queue(t, soldDuring)
	o.run(t, "Back up", "Redis in lane queue", "MariaDB and MySQL")
	kept := shop.orders
	shop.release(t)
	shop.sell(t, soldAfter)
	shop.moveOn(t)

	o.server.Kill()
	o.moveTo(t, newMachine(t, o.stack.Kind))
	shop.requireReopened(t, o.run(t, "Restore", "Redis", "A dump", "Skip ids: MariaDB and MySQL", "Start and check"), kept)
}

// restoreBinaryLog: the orders during the backup are in the file of Redis, and committed in the binary log.
func restoreBinaryLog(t *testing.T, o *operator, shop *backedUpShop) {
	shop.queue(t, soldDuring)
	o.run(t, "Back up", "Redis in lane queue", "MariaDB and MySQL")
	shop.release(t)
	shop.sell(t, soldAfter)
	o.run(t, "Copy of the binary log")

	o.server.Kill()
	o.moveTo(t, newMachine(t, o.stack.Kind))
	shop.requireReopened(t, o.run(t, "Restore", "Redis", "A dump", "The binary log since", "Start and check"), shop.orders)
}

// restoreDatabaseAlone: Redis has the gates of orders that the restored database does not have.
func restoreDatabaseAlone(t *testing.T, o *operator, shop *backedUpShop) {
	shop.backUpInMidRush(t, "MariaDB and MySQL")
	kept := shop.orders
	shop.sell(t, soldAfter)
	shop.moveOn(t)

	o.server.Kill()
	o.moveTo(t, newMachine(t, o.stack.Kind).With("SECKILL_REDIS_ADDRS="+o.stack.Redis.Addr))
	shop.requireReopened(t, o.run(t, "Restore", "A dump", "Skip ids: MariaDB and MySQL", "Start and check"), kept)
}

// newMachine returns a stack with an empty database seckill and an empty Redis, both with the logs that production has.
func newMachine(t *testing.T, kind env.Kind) *rig.Stack {
	t.Helper()
	db := kind.Start(t, "--log-bin", "--sync-binlog=1")
	dsn := env.Must(db.CreateDatabase(t.Context(), "seckill"))(t)
	rds := env.StartRedis(t, "--appendonly", "yes")

	return &rig.Stack{
		Lane:     "queue",
		Kind:     kind,
		Database: db,
		Redis:    rds,
		Env: []string{
			"SECKILL_MYSQL_DSN=" + dsn, "SECKILL_REDIS_ADDRS=" + rds.Addr, "SECKILL_DATA_DIR=" + t.TempDir(), "SECKILL_ORDER_LANE=queue",
			"SECKILL_DRAIN=0s", "SECKILL_JWT_SECRET=" + goodSecret, "SECKILL_DEMO=true", "SECKILL_UNSAFE=demo,sandbox,rate_limit",
			rig.EnvRedeliver + "=1s",
		},
	}
}

// operator runs the commands of docs/operations.md on a machine whose files are in a folder.
type operator struct {
	root     string
	addr     string
	commands map[string]string // by heading
	onMySQL  *strings.Replacer // from the commands of MariaDB
	calls    chan systemctlCall
	control  string // URL to which the program systemctl of the machine sends its arguments
	hold     string // the workers of a server commit nothing while this file exists

	stack  *rig.Stack
	server *rig.Server
}

// systemctlCall is a run of systemctl, which waits until done is closed.
type systemctlCall struct {
	verb, unit string
	done       chan struct{}
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{
		root:     t.TempDir(),
		addr:     env.FreeAddr(t),
		commands: commandsOf(t, "docs/operations.md"),
		onMySQL:  commandsOnMySQL(t),
		calls:    make(chan systemctlCall),
		hold:     filepath.Join(t.TempDir(), "hold"),
	}

	listener := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		call := systemctlCall{verb: r.URL.Query().Get("verb"), unit: r.URL.Query().Get("unit"), done: make(chan struct{})}
		select {
		case o.calls <- call:
			<-call.done
		case <-t.Context().Done():
		}
	}))
	t.Cleanup(listener.Close)
	o.control = listener.URL

	exe := env.Must(os.Executable())(t)
	for _, dir := range []string{"bin", "etc/seckill", "var/lib"} {
		require.NoError(t, os.MkdirAll(filepath.Join(o.root, dir), 0o700))
	}
	require.NoError(t, os.Symlink(exe, o.path("/bin/seckill")))
	const systemctl = "#!/bin/sh\n" + `exec curl -fsS "$CONTROL?verb=$1&unit=$2"` + "\n"
	require.NoError(t, os.WriteFile(o.path("/bin/systemctl"), []byte(systemctl), 0o700)) //nolint:gosec // a program
	return o
}

// commandsOnMySQL reads the table that has the commands for MySQL.
func commandsOnMySQL(t *testing.T) *strings.Replacer {
	t.Helper()
	_, table, found := strings.Cut(read(t, "docs/operations.md"), "| on MariaDB | on MySQL |\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")

	var pairs []string
	for _, row := range regexp.MustCompile("`(.+?)` \\| `(.+?)`").FindAllStringSubmatch(table, -1) {
		pairs = append(pairs, row[1], row[2])
	}
	return strings.NewReplacer(pairs...)
}

// commandsOf returns the commands of a document by the heading above them. Commands below one heading that are for
// different databases are those of "heading: database".
func commandsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	commands := map[string]string{}
	part := regexp.MustCompile("(?m)^#+ (.+)$|^(MariaDB and MySQL|SQLite):$|^```sh\n((?s:.*?))^```$")
	heading := ""
	for _, m := range part.FindAllStringSubmatch(read(t, path), -1) {
		switch {
		case m[1] != "":
			heading = m[1]
		case m[2] != "":
			title, _, _ := strings.Cut(heading, ": ")
			heading = title + ": " + m[2]
		default:
			commands[heading] += m[3]
		}
	}

	return commands
}

func (o *operator) path(file string) string { return filepath.Join(o.root, file) }

// moveTo makes a stack the machine of the operator.
func (o *operator) moveTo(t *testing.T, s *rig.Stack) {
	t.Helper()
	o.stack = s.With(rig.EnvHold + "=" + o.hold)

	var settings strings.Builder
	for _, e := range s.Env {
		name, value, _ := strings.Cut(e, "=")
		fmt.Fprintf(&settings, "%s='%s'\n", name, value)
	}
	require.NoError(t, os.WriteFile(o.path("/etc/seckill/seckill.env"), []byte(settings.String()), 0o600))

	if s.IsEmbedded() {
		return
	}

	dsn := env.Must(mysql.ParseDSN(s.Setting("SECKILL_MYSQL_DSN")))(t)
	host, port, _ := strings.Cut(dsn.Addr, ":")
	client := fmt.Sprintf("[client]\nhost=%s\nport=%s\nuser=%s\n", host, port, dsn.User)
	require.NoError(t, os.WriteFile(o.path("/.my.cnf"), []byte(client), 0o600))

	dir := env.Must(s.Redis.Client(t).ConfigGet(t.Context(), "dir").Result())(t)
	_ = os.Remove(o.path("/var/lib/redis"))
	require.NoError(t, os.Symlink(dir["dir"], o.path("/var/lib/redis")))
}

// ofMachine matches the beginning of a path of the machine in a command.
var ofMachine = regexp.MustCompile(`(^|[\s='"(])(/(?:etc|var)/)`)

// run runs the commands below the headings in one shell, and returns what they print.
func (o *operator) run(t *testing.T, headings ...string) string {
	t.Helper()
	script := "set -e\n"
	for _, h := range headings {
		require.NotEmpty(t, o.commands[h], "docs/operations.md has no commands below %q", h)
		script += o.commands[h]
	}
	script = ofMachine.ReplaceAllString(script, "${1}"+o.root+"${2}")
	path := o.path("/bin") + ":" + os.Getenv("PATH")
	if o.stack.Kind == env.MySQL {
		// Where MySQL is beside MariaDB, its programs have a folder of their own.
		path = filepath.Dir(o.stack.Database.Program()) + ":" + path
		script = o.onMySQL.Replace(script)
	}

	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = o.root
	cmd.Env = []string{
		rig.EnvRunMain + "=1", "CONTROL=" + o.control, "HOME=" + o.root, "PATH=" + path,
	}
	var out env.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())

	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case call := <-o.calls:
			func() {
				defer close(call.done)
				o.systemctl(t, call.verb, call.unit)
			}()
		case err := <-ended:
			require.NoError(t, err, "%s\nprints\n%s", script, out.String())
			return out.String()
		}
	}
}

// systemctl does what the program does on the machine.
func (o *operator) systemctl(t *testing.T, verb, unit string) {
	t.Helper()
	switch verb + " " + unit {
	case "start seckill":
		o.server = o.stack.With("SECKILL_RATE_LIMIT=off").Spawn(t, o.addr)
	case "stop seckill":
		// The machine was lost with it.
		<-o.server.Done
	case "stop redis-server":
		require.NoError(t, o.stack.Redis.Terminate(servers.StartTimeout))
	case "start redis-server":
		require.NoError(t, o.stack.Redis.Restart())
	default:
		require.Fail(t, "unknown command", "systemctl %s %s", verb, unit)
	}
}

// backedUpShop is a sale on the machine of an operator.
type backedUpShop struct {
	*operator

	sale   string
	tokens []string
	orders []string // of the first buyers
	ids    []string // of the user and the sale that no backup has
	idle   string   // refresh token of a session without a request until the restore
	used   string   // refresh token of a session that was refreshed after the backup
}

func openShop(t *testing.T, o *operator) *backedUpShop {
	t.Helper()
	return &backedUpShop{
		operator: o,
		sale:     o.server.Sale(t, unitsToSell),
		tokens:   o.stack.Tokens(t, 2*unitsToSell),
		idle:     refreshToken(o.server.LogIn(t, rig.NewPhone())),
		used:     refreshToken(o.server.LogIn(t, rig.NewPhone())),
	}
}

func (s *backedUpShop) sell(t *testing.T, n int) {
	t.Helper()
	for range n {
		s.orders = append(s.orders, s.server.Buy(t, s.tokens[len(s.orders)], s.sale))
	}
}

// backUpInMidRush makes a backup in the middle of a rush of another sale, all of whose buyers get their units.
func (s *backedUpShop) backUpInMidRush(t *testing.T, heading string) {
	t.Helper()
	const buyers = 400
	c := rig.BuyersOf(s.server.Sale(t, buyers), buyers, s.stack.Tokens(t, buyers), s.server)
	finish := rig.LongRush(t, s.stack, c, time.Second)
	s.run(t, "Back up", heading)
	require.Len(t, rig.OrdersIn(finish()), buyers)
}

// queue accepts orders of the next buyers, which no worker commits before release.
func (s *backedUpShop) queue(t *testing.T, n int) {
	t.Helper()
	rig.RequireSettled(t, s.stack)
	require.NoError(t, os.WriteFile(s.hold, nil, 0o600))
	for range n {
		s.orders = append(s.orders, s.server.Queue(t, s.tokens[len(s.orders)], s.sale))
	}
}

func (s *backedUpShop) release(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Remove(s.hold))
	rig.RequireSettled(t, s.stack)
}

func (s *backedUpShop) moveOn(t *testing.T) {
	t.Helper()
	s.ids = []string{rig.UserOf(t, s.server.LoginToken(t, rig.NewPhone())), s.server.Sale(t, 1)}
	s.used = refreshToken(s.server.Must(t, refresh(s.used)))
}

// requireReopened requires that the checks of the document passed, whose output is out. The restored server has the kept
// orders, none of the others, gives no id again, and sells every unit that is left.
func (s *backedUpShop) requireReopened(t *testing.T, out string, kept []string) {
	t.Helper()
	require.NotRegexp(t, `\.sql +pending`, out)
	require.Contains(t, out, "all invariants hold")
	require.Contains(t, out, " 0 failed")

	for i, id := range s.orders {
		if i < len(kept) {
			rig.RequireOrdered(t, s.server, s.tokens[i], id)
			continue
		}
		rig.RequireProblem(t, http.StatusNotFound, "not_found", s.server.Do(t, rig.Get("/orders/"+id, s.tokens[i])))
	}

	s.server.Must(t, refresh(s.idle))
	if len(s.ids) > 0 {
		require.Equal(t, http.StatusUnauthorized, s.server.Do(t, refresh(s.used)).Status)
		again := []string{rig.UserOf(t, s.server.LoginToken(t, rig.NewPhone())), s.server.Sale(t, 1)}
		for i, id := range again {
			require.Greater(t, number(t, id), number(t, s.ids[i]), "the id of another one")
		}
	}

	c := rig.BuyersOf(s.sale, unitsToSell, s.tokens, s.server)
	rig.RequireAllServed(t, s.stack, c, c.Run(t.Context()))
}

func refresh(token string) rig.Request {
	return rig.Post("/auth/refresh", "", map[string]any{"refresh_token": token})
}

func refreshToken(login map[string]any) string {
	token, _ := login["refresh_token"].(string)
	return token
}

func number(t *testing.T, id string) int64 {
	t.Helper()
	return env.Must(strconv.ParseInt(id, 10, 64))(t)
}

// TestReadmeDeployment runs the commands of the section on deployment of both READMEs. It ends with a publication by an admin.
func TestReadmeDeployment(t *testing.T) {
	env.FullParallel(t)

	const phone = "13912345678"
	for file, heading := range map[string]string{"README.md": "Deployment", "README.zh-CN.md": "生产部署"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := newMachine(t, env.OneKind(t))
			s.Exec(t, "CREATE USER seckill@'127.0.0.1' IDENTIFIED BY 'password'")
			s.Exec(t, "GRANT ALL ON seckill.* TO seckill@'127.0.0.1'")
			codes := rig.StartCodeReceiver(t)

			// The server is started below, where the rig waits for it. The receiver of the rig knows one secret only.
			o := newOperator(t)
			o.stack = s
			commands := strings.NewReplacer(
				"127.0.0.1:3306", s.Database.Addr,
				"127.0.0.1:6379", s.Redis.Addr,
				"https://sms.example/codes", codes.URL,
				"EVENTS_SECRET=$(openssl rand -hex 32)", "EVENTS_SECRET="+rig.EventsSecret,
				"\nseckill serve\n", "\nenv\n",
			).Replace(commandsOf(t, file)[heading])
			o.commands = map[string]string{heading: regexp.MustCompile(`<.+>`).ReplaceAllString(commands, phone)}
			printed := o.run(t, heading)

			deployed := &rig.Stack{Kind: s.Kind, Database: s.Database, Redis: s.Redis}
			deployed.Env = regexp.MustCompile(`(?m)^SECKILL_\w+=.*$`).FindAllString(printed, -1)
			p := deployed.Spawn(t, "")
			admin, _ := codes.LoginWith(t, p, phone, printed)["access_token"].(string)
			env.Must(p.CreateSale(t.Context(), admin, "Rush", 1))(t)
		})
	}
}
