package handler_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/seckill.postman_collection.json anew")

const collectionFile = "../../docs/seckill.postman_collection.json"

// The parts of a Postman collection (v2.1) that are used here.
type (
	pmCollection struct {
		Info struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Schema      string `json:"schema"`
		} `json:"info"`
		Auth     pmAuth     `json:"auth"`
		Variable []pmPair   `json:"variable"`
		Item     []pmFolder `json:"item"`
	}
	pmFolder struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Item        []pmItem `json:"item"`
	}
	pmItem struct {
		ID       string       `json:"id"`
		Name     string       `json:"name"`
		Event    []pmEvent    `json:"event,omitempty"`
		Request  pmRequest    `json:"request"`
		Response []pmResponse `json:"response"`
	}
	pmRequest struct {
		Auth        *pmAuth  `json:"auth,omitempty"`
		Method      string   `json:"method"`
		Header      []pmPair `json:"header"`
		Body        *pmBody  `json:"body,omitempty"`
		URL         pmURL    `json:"url"`
		Description string   `json:"description,omitempty"`
	}
	pmResponse struct {
		Name   string   `json:"name"`
		Status string   `json:"status"`
		Code   int      `json:"code"`
		Header []pmPair `json:"header"`
		Body   string   `json:"body"`
	}
	pmAuth struct {
		Type   string   `json:"type"`
		Bearer []pmPair `json:"bearer,omitempty"`
	}
	pmPair struct {
		Key         string `json:"key"`
		Value       string `json:"value"`
		Type        string `json:"type,omitempty"`
		Description string `json:"description,omitempty"`
		Disabled    bool   `json:"disabled,omitempty"`
	}
	pmBody struct {
		Mode    string `json:"mode"`
		Raw     string `json:"raw"`
		Options struct {
			Raw struct {
				Language string `json:"language"`
			} `json:"raw"`
		} `json:"options"`
	}
	pmURL struct {
		Raw   string   `json:"raw"`
		Host  []string `json:"host"`
		Path  []string `json:"path"`
		Query []pmPair `json:"query,omitempty"`
	}
	pmEvent struct {
		Listen string `json:"listen"`
		Script struct {
			Type string   `json:"type"`
			Exec []string `json:"exec"`
		} `json:"script"`
	}
)

// pmVariables are what requests take from the collection. The scripts below set those that are empty here.
var pmVariables = []pmPair{
	{Key: "baseUrl", Value: "http://127.0.0.1:8080"},
	{Key: "phone", Value: "13800000001", Description: "Who logs in. In the demo 13800000000 is an admin."},
	{Key: "code", Description: "Of the login; in the demo POST /auth/code sets it."},
	{Key: "token", Description: "Set by login and refresh."},
	{Key: "refresh_token", Description: "Set by login and refresh."},
	{Key: "voucher_id", Value: "1", Description: "Set by the list of vouchers: the first that is on sale."},
	{Key: "order_id", Description: "Set by a purchase."},
	{Key: "letter_id", Description: "Set by the list of dead letters."},
	{Key: "payment_secret", Description: "SECKILL_PAYMENT_SECRET, to sign the notice of a payment provider."},
}

// pmScripts take what later requests need out of an answer, by operation.
var pmScripts = map[string][]string{
	"sendCode": {`const code = pm.response.headers.get("X-Demo-Code");`, `if (code) pm.collectionVariables.set("code", code);`},
	"login":    pmKeepTokens,
	"refresh":  pmKeepTokens,
	"listVouchers": {
		`const sale = pm.response.json().items.find((v) => v.state === "on_sale" && v.type === "seckill");`,
		`if (sale) pm.collectionVariables.set("voucher_id", sale.id);`,
	},
	"createVoucher": {`if (pm.response.code === 201) pm.collectionVariables.set("voucher_id", pm.response.json().id);`},
	"placeOrder": {
		`const body = pm.response.json(); // of 201, of 202, or of duplicate_order`,
		`if (body.order_id || body.id) pm.collectionVariables.set("order_id", body.order_id || body.id);`,
	},
	"listDeadLetters": {`const [letter] = pm.response.json().items || [];`, `if (letter) pm.collectionVariables.set("letter_id", letter.id);`},
}

var pmKeepTokens = []string{
	`if (pm.response.code === 200) {`,
	`  pm.collectionVariables.set("token", pm.response.json().access_token);`,
	`  pm.collectionVariables.set("refresh_token", pm.response.json().refresh_token);`,
	`}`,
}

// pmSign signs a notice as a payment provider does.
var pmSign = []string{
	`const t = Math.floor(Date.now() / 1000);`,
	`const body = pm.variables.replaceIn(pm.request.body.raw);`,
	`const v1 = CryptoJS.HmacSHA256(t + "." + body, pm.collectionVariables.get("payment_secret")).toString();`,
	"pm.request.headers.upsert({ key: \"X-Seckill-Signature\", value: `t=${t},v1=${v1}` });",
}

// pmBodies are the examples of the document with variables instead of what must be the reader's own.
var pmBodies = map[string]map[string]string{
	"sendCode": {"phone": "{{phone}}"}, "login": {"phone": "{{phone}}", "code": "{{code}}"},
	"refresh": {"refresh_token": "{{refresh_token}}"}, "paymentNotice": {"order_id": "{{order_id}}"},
	"applyReconcile": {"voucher_id": "{{voucher_id}}"},
}

// collection makes the Postman collection of the document.
func collection(t *testing.T, doc *openapi3.T) pmCollection {
	t.Helper()
	var c pmCollection
	c.Info.Name, c.Info.Schema = doc.Info.Title, "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
	c.Info.Description = doc.Info.Description
	c.Auth = pmAuth{Type: "bearer", Bearer: []pmPair{{Key: "token", Value: "{{token}}", Type: "string"}}}
	c.Variable = pmVariables
	all := operations(t)
	slices.SortFunc(all, func(a, b operation) int {
		_, pathA, _ := strings.Cut(a.name, " ")
		_, pathB, _ := strings.Cut(b.name, " ")
		return strings.Compare(pathA+" "+a.method, pathB+" "+b.method)
	})
	for _, tag := range doc.Tags {
		f := pmFolder{Name: tag.Name, Description: tag.Description}
		for _, o := range all {
			if o.op.Tags[0] == tag.Name {
				f.Item = append(f.Item, o.postman(t))
			}
		}
		c.Item = append(c.Item, f)
	}
	return c
}

func (o operation) postman(t *testing.T) pmItem {
	t.Helper()
	item := pmItem{ID: o.op.OperationID, Name: o.op.Summary, Request: o.pmRequest(t)}
	script := func(listen string, lines []string) {
		if lines != nil {
			e := pmEvent{Listen: listen}
			e.Script.Type, e.Script.Exec = "text/javascript", lines
			item.Event = append(item.Event, e)
		}
	}
	if o.op.OperationID == "paymentNotice" {
		script("prerequest", pmSign)
	}
	script("test", pmScripts[o.op.OperationID])
	for _, status := range slices.Sorted(maps.Keys(o.op.Responses.Map())) {
		if status >= "400" { // the document has them, for every operation the same
			continue
		}
		r := o.op.Responses.Value(status).Value
		for kind, m := range r.Content {
			body, ok := exampleOf(m).(string) // of a stream
			if !ok {
				body = pretty(t, exampleOf(m))
			}
			code := statusNumber(status)
			item.Response = append(item.Response, pmResponse{
				Name: *r.Description, Status: http.StatusText(code), Code: code, Body: body,
				Header: []pmPair{{Key: "Content-Type", Value: kind}},
			})
		}
	}
	if item.Response == nil {
		item.Response = []pmResponse{}
	}
	return item
}

func (o operation) pmRequest(t *testing.T) pmRequest {
	t.Helper()
	r := pmRequest{Method: o.method, Header: []pmPair{}, Description: o.op.Description}
	if len(*o.op.Security) == 0 || (*o.op.Security)[0]["bearerAuth"] == nil {
		r.Auth = &pmAuth{Type: "noauth"}
	}
	_, path, _ := strings.Cut(o.name, " ")
	id := "{{voucher_id}}"
	switch {
	case strings.Contains(path, "/orders/{id}"):
		id = "{{order_id}}"
	case strings.Contains(path, "/dead-letters/"):
		id = "{{letter_id}}"
	}
	path = strings.NewReplacer("{id}", id, "{provider}", "sandbox").Replace(path)
	r.URL = pmURL{Raw: "{{baseUrl}}" + path, Host: []string{"{{baseUrl}}"}, Path: strings.Split(path[1:], "/")}
	for _, p := range o.params {
		v := p.Value
		switch v.In {
		case "query":
			r.URL.Query = append(r.URL.Query, pmPair{Key: v.Name, Description: v.Description, Disabled: true})
		case "header":
			pair := pmPair{Key: v.Name, Description: v.Description, Disabled: true}
			if v.Name == "Idempotency-Key" {
				pair.Value = "{{$guid}}"
			}
			r.Header = append(r.Header, pair)
		}
	}
	if text, ok := o.body.(string); ok {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &fields), o.name)
		for name, value := range pmBodies[o.op.OperationID] {
			fields[name] = value
		}
		r.Header = append(r.Header, pmPair{Key: "Content-Type", Value: "application/json"})
		r.Body = &pmBody{Mode: "raw", Raw: pretty(t, fields)}
		r.Body.Options.Raw.Language = "json"
	}
	return r
}

func statusNumber(text string) (n int) {
	for _, digit := range text {
		n = 10*n + int(digit-'0')
	}
	return n
}

// pretty writes JSON for people.
func pretty(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(v))
	return strings.TrimSuffix(b.String(), "\n")
}

// TestPostmanCollection compares the collection with the document; with -update it is made anew.
func TestPostmanCollection(t *testing.T) {
	t.Parallel()
	k, err := theContract()
	require.NoError(t, err)
	text := pretty(t, collection(t, k.doc)) + "\n"
	if *update {
		require.NoError(t, os.WriteFile(collectionFile, []byte(text), 0o644))
	}
	kept, err := os.ReadFile(collectionFile)
	require.NoError(t, err)
	require.Equal(t, text, string(kept), "go test ./internal/handler -run TestPostmanCollection -update makes it anew")
}

// TestPostmanCollectionIsOne holds the file against what Postman's schema wants, and looks for every operation in it.
func TestPostmanCollectionIsOne(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(collectionFile)
	require.NoError(t, err)
	var c pmCollection
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&c))
	assert.NotEmpty(t, c.Info.Name)
	assert.Equal(t, "https://schema.getpostman.com/json/collection/v2.1.0/collection.json", c.Info.Schema)
	defined := map[string]bool{"$guid": true}
	for _, v := range c.Variable {
		assert.False(t, defined[v.Key], "%s: twice", v.Key)
		defined[v.Key] = true
	}
	for _, part := range strings.Split(string(text), "{{")[1:] {
		name, _, ok := strings.Cut(part, "}}")
		assert.True(t, ok && defined[name], "{{%s: a variable that is not defined", part[:min(20, len(part))])
	}
	var found []string
	for _, folder := range c.Item {
		assert.NotEmpty(t, folder.Item, "%s: a folder without requests", folder.Name)
		for _, item := range folder.Item {
			r := item.Request
			assert.NotEmpty(t, item.Name)
			assert.Equal(t, r.URL.Raw, r.URL.Host[0]+"/"+strings.Join(r.URL.Path, "/"), item.Name)
			assert.Contains(t, []string{"GET", "POST", "PATCH", "PUT", "DELETE"}, r.Method)
			if r.Body != nil {
				assert.Equal(t, "raw", r.Body.Mode)
				assert.True(t, json.Valid([]byte(r.Body.Raw)), item.Name)
			}
			for _, e := range item.Event {
				assert.Contains(t, []string{"prerequest", "test"}, e.Listen)
				assert.NotEmpty(t, e.Script.Exec)
			}
			for _, a := range item.Response {
				assert.NotEmpty(t, a.Status)
				assert.Less(t, a.Code, 300)
			}
			path := strings.TrimPrefix(r.URL.Raw, "{{baseUrl}}")
			found = append(found, r.Method+" "+strings.NewReplacer("{{voucher_id}}", "{id}", "{{order_id}}", "{id}", "{{letter_id}}", "{id}",
				"/webhook/sandbox", "/webhook/{provider}").Replace(path))
		}
	}
	assert.ElementsMatch(t, documented(t), found)
}
