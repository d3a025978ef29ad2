package handler

import (
	"bytes"
	_ "embed" // the texts
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"seckill/internal/domain"
)

// problemsPath is the path of the pages about codes. With a code appended it is the type of a problem: a relative
// reference (RFC 9457, 3.1.1), which resolves against the URL of the request.
const problemsPath = "/problems/"

// Problem explains a code of the API in English and Chinese: what it means and how a client handles it.
type Problem struct {
	Code string `json:"code"`
	// This and the title come from the table of errors.
	Status  int    `json:"-"`
	Title   string `json:"-"`
	TitleZH string `json:"title_zh"`
	Means   string `json:"means"`
	Do      string `json:"do"`
	MeansZH string `json:"means_zh"`
	DoZH    string `json:"do_zh"`
	// An indented JSON body.
	Example string `json:"-"`
	// Whether answers have the header Retry-After.
	RetryAfter bool `json:"-"`
	// Operations that return the code, such as "POST /api/v1/vouchers/{id}/orders".
	Routes []string `json:"-"`
}

// problemTexts has the texts of every code, ordered by status.
//
//go:embed problems.json
var problemTexts []byte

// examples are errors of the codes for which the first row of the table of errors is no example.
var examples = map[string]error{
	"invalid_request": domain.Invalid("phone", "is required"),
	"challenge_required": &domain.ChallengeRequiredError{Reason: "the request has no solution", Challenge: json.RawMessage(
		`{"parameters":{"algorithm":"PBKDF2/SHA-256","cost":5000,"data":{"keySignature":"d9fa7eed","user":"1001","voucher":"2"},` +
			`"expiresAt":1794398520,"keyLength":32,"keyPrefix":"032f4551","nonce":"00112233","salt":"0f1e2d3c"},"signature":"c8522d27"}`,
	)},
	"invalid_state":   domain.ErrInvalidState,
	"duplicate_order": &domain.DuplicateOrderError{OrderID: 3368803458027454465},
	"rate_limited":    &domain.RateLimitedError{RetryAfter: time.Second},
	"internal":        errPanic,
}

func exampleOf(code string) error {
	if err, ok := examples[code]; ok {
		return err
	}
	i := slices.IndexFunc(outcomes, func(o outcome) bool { return o.code == code })
	return outcomes[i].err
}

// Problems returns the explanations of all codes, ordered by status. It fails if an embedded document is not valid.
func Problems() ([]Problem, error) {
	routes, err := documentedRoutes()
	if err != nil {
		return nil, err
	}

	var all []Problem
	if err := json.Unmarshal(problemTexts, &all); err != nil {
		return nil, fmt.Errorf("problems.json: %w", err)
	}

	for i := range all {
		page := &all[i]
		p, retryAfter := problemOf(exampleOf(page.Code))
		p.RequestID = "JBSWY3DPEHPK3PXPJBSWY3DPEH"
		var example bytes.Buffer
		if err := json.Indent(&example, appendProblem(nil, &p), "", "  "); err != nil {
			return nil, err
		}

		page.Status = p.Status
		page.Title = p.Title
		page.Example = example.String()
		page.RetryAfter = retryAfter > 0
		page.Routes = routes[page.Code]
	}

	return all, nil
}

// documentedRoutes is routesByCode of the embedded document, which takes 30 ms to parse.
var documentedRoutes = sync.OnceValues(func() (map[string][]string, error) { return routesByCode(openAPI) })

// openAPIDocument is the part of an OpenAPI document that has the codes of each operation.
type openAPIDocument struct {
	Paths      map[string]map[string]json.RawMessage
	Components map[string]map[string]any
}

func routesByCode(text []byte) (map[string][]string, error) {
	var doc openAPIDocument
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("openapi.json: %w", err)
	}

	routes := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			if method == "parameters" {
				continue
			}

			var op struct{ Responses map[string]any }
			if err := json.Unmarshal(doc.Paths[path][method], &op); err != nil {
				return nil, fmt.Errorf("openapi.json: %s %s: %w", method, path, err)
			}

			codes := map[string]bool{}
			for status, response := range op.Responses {
				if status >= "4" {
					doc.addCodes(codes, response)
				}
			}

			for code := range codes {
				routes[code] = append(routes[code], strings.ToUpper(method)+" "+path)
			}
		}
	}

	return routes, nil
}

// addCodes adds the codes that a part of the document allows: the words of each property "code" in it, or in what it refers
// to.
func (d *openAPIDocument) addCodes(codes map[string]bool, part any) {
	switch part := part.(type) {
	case []any:
		for _, one := range part {
			d.addCodes(codes, one)
		}
	case map[string]any:
		if ref, ok := part["$ref"].(string); ok {
			kind, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/components/"), "/")
			d.addCodes(codes, d.Components[kind][name])
		}

		if code, ok := part["code"].(map[string]any); ok {
			words, _ := code["enum"].([]any)
			for _, word := range words {
				codes[fmt.Sprint(word)] = true
			}
		}

		for _, one := range part {
			d.addCodes(codes, one)
		}
	}
}
