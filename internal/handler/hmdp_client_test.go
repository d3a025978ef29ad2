package handler_test

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// jsonNull matches the value; a random token may contain the four letters.
var jsonNull = regexp.MustCompile(`[:,\[]null\b`)

// page is a client of the hm-dianping routes: with a bare token and an envelope.
type page struct{ client }

// page returns a client that is not logged in.
func (e *env) page() page { return page{e.guest()} }

// pageOf logs a phone in and returns the client.
func (e *env) pageOf(phone string) page {
	e.t.Helper()
	p := e.page()
	p.post("/user/code?phone="+phone, nil).none()
	p.token = p.post("/user/login", map[string]string{"phone": phone, "code": e.outbox.code(phone)}).text()
	return p
}

func (p page) get(path string) reply            { p.t.Helper(); return p.do("GET", path, nil) }
func (p page) post(path string, body any) reply { p.t.Helper(); return p.do("POST", path, body) }

// do sends a request and checks what all answers have in common.
func (p page) do(method, path string, body any) reply {
	p.t.Helper()
	token := p.token
	p.token = "" // the embedded client would send it as a bearer token
	req := p.request(p.env.url, method, path, body)
	if token != "" {
		req.Header.Set("authorization", token)
	}
	res, err := p.env.http.Do(req)
	require.NoError(p.t, err)
	defer func() { _ = res.Body.Close() }()
	r := reply{answer: answer{t: p.t, what: method + " " + path, status: res.StatusCode, header: res.Header}}
	r.body, err = io.ReadAll(res.Body)
	require.NoError(p.t, err)
	r.check()
	return r
}

// reply is an answer with its envelope.
type reply struct {
	answer
	envelope map[string]any
}

// check decodes the envelope, with numbers as json.Number, and validates it.
func (r *reply) check() {
	t := r.t
	t.Helper()
	assert.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"), r.what)
	assert.NotEmpty(t, r.header.Get("X-Request-Id"), r.what)
	if r.status == http.StatusUnauthorized {
		require.Empty(t, r.body, "%s: the pages ignore the body of a 401", r.what)
		return
	}
	require.Equal(t, "application/json; charset=utf-8", r.header.Get("Content-Type"), "%s: %s", r.what, r.body)
	dec := json.NewDecoder(strings.NewReader(string(r.body)))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&r.envelope), "%s: %s", r.what, r.body)
	require.NotRegexp(t, jsonNull, string(r.body), r.what)
	for name := range r.envelope {
		require.Contains(t, []string{"success", "errorMsg", "data", "total"}, name, r.what)
	}
	if r.envelope["success"] == true {
		require.Equal(t, http.StatusOK, r.status, r.what)
		require.NotContains(t, r.envelope, "errorMsg", r.what)
	} else {
		require.Equal(t, false, r.envelope["success"], "%s: %s", r.what, r.body)
		require.NotContains(t, r.envelope, "data", r.what)
	}
}

// data returns the data of a success and stops the test if there is none.
func (r reply) data() any {
	r.t.Helper()
	require.Equal(r.t, true, r.envelope["success"], "%s: %d %s", r.what, r.status, r.body)
	require.Contains(r.t, r.envelope, "data", r.what)
	return r.envelope["data"]
}

// none stops the test unless the answer is a success without data.
func (r reply) none() {
	r.t.Helper()
	require.Equal(r.t, map[string]any{"success": true}, r.envelope, "%s: %d %s", r.what, r.status, r.body)
}

func (r reply) text() string {
	r.t.Helper()
	text, ok := r.data().(string)
	require.True(r.t, ok, "%s: %s", r.what, r.body)
	require.NotEmpty(r.t, text)
	return text
}

func (r reply) object() map[string]any {
	r.t.Helper()
	object, ok := r.data().(map[string]any)
	require.True(r.t, ok, "%s: %s", r.what, r.body)
	return object
}

func (r reply) list() []map[string]any {
	r.t.Helper()
	items, ok := r.data().([]any)
	require.True(r.t, ok, "%s: %s", r.what, r.body)
	list := make([]map[string]any, len(items))
	for i, item := range items {
		list[i], ok = item.(map[string]any)
		require.True(r.t, ok, "%s: %s", r.what, r.body)
	}
	return list
}

// fails stops the test unless the answer is a failure with this message.
func (r reply) fails(message string) {
	r.t.Helper()
	require.Equal(r.t, http.StatusOK, r.status, "%s: %s", r.what, r.body)
	require.Equal(r.t, map[string]any{"success": false, "errorMsg": message}, r.envelope, r.what)
}

// broken stops the test unless the answer is a server error with this status.
func (r reply) broken(status int) {
	r.t.Helper()
	require.Equal(r.t, status, r.status, "%s: %s", r.what, r.body)
	require.Equal(r.t, map[string]any{"success": false, "errorMsg": "服务器异常"}, r.envelope, r.what)
}

// loggedOut stops the test unless the answer is 401.
func (r reply) loggedOut() { r.t.Helper(); r.want(http.StatusUnauthorized) }
