package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

const apiFile = "../../docs/api.http"

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
		var r httpRequest
		var body []string
		inBody := false
		lines := strings.Split(strings.TrimSpace(block), "\n")
		r.title = lines[0]
		for _, line := range lines[1:] {
			name, isName := strings.CutPrefix(line, "# @name ")
			expect := expectation.FindStringSubmatch(line)
			switch {
			case inBody:
				body = append(body, line)
			case isName:
				r.name = name
			case expect != nil:
				r.status, _ = strconv.Atoi(expect[1])
				r.want = expect[2]
			case strings.HasPrefix(line, "#"):
			case r.method == "":
				var ok bool
				r.method, r.url, ok = strings.Cut(line, " ")
				require.True(t, ok, line)
			case line == "":
				inBody = true
			default:
				name, value, ok := strings.Cut(line, ": ")
				require.True(t, ok, "%s: %s", r.title, line)
				r.header = append(r.header, [2]string{name, value})
			}
		}
		r.body = strings.Join(body, "\n")
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
	t.Parallel()
	text := env.Must(os.ReadFile(apiFile))(t)
	f := parseHTTP(t, string(text))
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

// TestTour runs the commands of the tour in docs/hmdp.md and in its translation, and compares what they print. The commands
// of terminal 1 run beside all others.
func TestTour(t *testing.T) {
	env.Full(t)
	t.Parallel()
	for name, heading := range map[string]string{"hmdp.md": "A tour of ten minutes", "hmdp.zh-CN.md": "十分钟上手"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := env.Must(os.ReadFile("../../docs/" + name))(t)
			_, tour, found := strings.Cut(string(text), "\n## "+heading+"\n")
			require.True(t, found)
			tour, _, _ = strings.Cut(tour, "\n## ")

			addr := rig.FreeAddr(t)
			blocks := tourBlock.FindAllStringSubmatch(strings.ReplaceAll(tour, "127.0.0.1:8080", addr), -1)
			require.Len(t, blocks, 7)
			dir := newTourFolder(t)

			server := dir.shell(addr, blocks[0][1])
			var log rig.Buffer
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
			out := env.Must(dir.shell(addr, script.String()).CombinedOutput())(t)
			printed := strings.Split(string(out), endOfBlock+"\n")
			require.Len(t, printed, len(blocks), string(out))
			for i, b := range blocks[1:] {
				requirePrinted(t, b, printed[i])
			}
		})
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

// tourFolder is the folder in which a newcomer runs the commands.
type tourFolder struct {
	path string
	exe  string // of this test, which is the program if envRunMain is set
}

// newTourFolder returns an empty folder with a go command that builds the program without compiling it.
func newTourFolder(t *testing.T) tourFolder {
	t.Helper()
	exe := env.Must(os.Executable())(t)
	dir := tourFolder{path: t.TempDir(), exe: exe}
	const builder = "#!/bin/sh\n" + `[ "$*" = "build -tags nomsgpack -o seckill ./cmd/seckill" ] && ln -s "$SECKILL_EXE" seckill` + "\n"
	require.NoError(t, os.Mkdir(filepath.Join(dir.path, "bin"), 0o755))                            //nolint:gosec // only this test uses it
	require.NoError(t, os.WriteFile(filepath.Join(dir.path, "bin", "go"), []byte(builder), 0o755)) //nolint:gosec // likewise
	return dir
}

// shell returns a command that runs a script for a server at addr.
func (d tourFolder) shell(addr, script string) *exec.Cmd {
	script = strings.Replace(script, "\n./seckill\n", "\nexec ./seckill\n", 1) // so that the server receives the signal of the test
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = d.path
	cmd.Env = []string{
		rig.EnvRunMain + "=1", "SECKILL_EXE=" + d.exe, "SECKILL_ADDR=" + addr, "PATH=" + filepath.Join(d.path, "bin") + ":" + os.Getenv("PATH"),
		"HOME=" + os.Getenv("HOME"),
	}
	return cmd
}
