package handler

import (
	"bytes"
	_ "embed" // the texts
	"encoding/json"
	"slices"
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

// Problems returns the explanations of all codes, ordered by status.
func Problems() []Problem {
	// TestEveryCodeHasAPage parses it as well, and a problem is always valid JSON.
	var all []Problem
	_ = json.Unmarshal(problemTexts, &all)
	for i := range all {
		page := &all[i]
		p, retryAfter := problemOf(exampleOf(page.Code))
		p.RequestID = "JBSWY3DPEHPK3PXPJBSWY3DPEH"
		var example bytes.Buffer
		_ = json.Indent(&example, appendProblem(nil, &p), "", "  ")
		page.Status = p.Status
		page.Title = p.Title
		page.Example = example.String()
		page.RetryAfter = retryAfter > 0
	}

	return all
}
