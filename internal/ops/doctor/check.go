// Package doctor checks what the program depends on (a database, Redis, lock nodes) and reports what to change before
// a sale. It is read-only: it changes no data and no setting.
//
// A [Group] holds the checks of one server. They run concurrently once the server has answered, and are skipped if it
// has not. [Run] runs groups concurrently, and each check has its own deadline.
//
// A rule is a small function that turns the state of a server into a [Result]. docs/operations.md explains all rules by
// name, which a test verifies.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"seckill/internal/kit/loop"
)

// Status is the outcome of a check.
type Status string

// The outcomes. Skipped means that the check does not apply or that the server refused the query.
const (
	OK      Status = "ok"
	Warn    Status = "warn"
	Fail    Status = "fail"
	Skipped Status = "skipped"
)

// Result is the finding of a check. Its texts contain no secrets, except possibly the part in ErrorText.
type Result struct {
	Status Status `json:"status"`
	Found  string `json:"found"`
	// The setting, SQL or command that fixes it; empty if no change is needed.
	Change string `json:"change,omitempty"`
	// Unasked reports that a required server did not answer, so the state is unknown.
	Unasked bool `json:"unasked,omitempty"`
	// Accepted reports that a failure is only a warning because SECKILL_UNSAFE names the check.
	Accepted bool `json:"accepted,omitempty"`
	// ErrorText is the suffix of Found that comes from an error, possibly a server's. It may contain secrets; see
	// Masked.
	ErrorText string `json:"-"`
}

// Good returns an OK result.
func Good(format string, args ...any) Result {
	return Result{Status: OK, Found: fmt.Sprintf(format, args...)}
}

// Bad returns a result with the change that fixes it.
func Bad(status Status, change, format string, args ...any) Result {
	return Result{
		Status: status,
		Found:  fmt.Sprintf(format, args...),
		Change: change,
	}
}

// FromError returns a result whose finding ends with the text of err. A file that this user may not open says nothing about
// its content: then the change is about the user.
func FromError(status Status, change, found string, err error) Result {
	file, ok := errors.AsType[*fs.PathError](err)
	if ok && errors.Is(file, fs.ErrPermission) {
		change = "run this as the user of the server, which must own " + file.Path
	}

	text := oneLine(err.Error())
	return Result{
		Status:    status,
		Found:     found + text,
		Change:    change,
		ErrorText: text,
	}
}

// Masked returns the finding with the secrets removed from its error text. The program's own texts are not masked: if a
// password were one of their words, the gap would reveal it.
func (r Result) Masked(secrets []string) string {
	if r.ErrorText == "" {
		return r.Found
	}
	text := r.ErrorText
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "***")
	}
	return strings.TrimSuffix(r.Found, r.ErrorText) + text
}

// Unanswered returns the result of a check whose server returned an error or nothing at all. A timeout is reported in
// plain words, because a hanging server is the worst case.
func Unanswered(err error, change string) Result {
	r := FromError(Fail, change, "", err)
	slow, ok := errors.AsType[net.Error](err)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || ok && slow.Timeout() {
		r = Bad(Fail, change, "no answer in time: the server hangs or is overloaded, or the network drops packets")
	}

	r.Unasked = true
	return r
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// deadline is the default timeout of a check. It is shorter than the 2.5 s after which the program's own connections
// fail with a less specific error.
const deadline = 2 * time.Second

// Check is one named check.
type Check struct {
	Name string
	// Deadline bounds Run; 0 means 2 s.
	Deadline time.Duration
	// Run must return soon after its context ends.
	Run func(ctx context.Context) Result
}

// Group is the checks of one server, or checks that need no server.
type Group struct {
	// Names the server if there are several; empty otherwise.
	On string
	// Reach runs first. Unless it returns OK or Warn, the checks are skipped. The zero value is no check.
	Reach  Check
	Checks []Check
}

// Finding is the result of a named check.
type Finding struct {
	Check string `json:"check"`
	On    string `json:"on,omitempty"`
	Result
}

// Run runs all checks and returns their findings in the order of the groups. It takes as long as the slowest group.
func Run(ctx context.Context, groups []Group) []Finding {
	return slices.Concat(loop.All(groups, func(g Group) []Finding { return g.run(ctx) })...)
}

func (g Group) run(ctx context.Context) []Finding {
	var findings []Finding
	find := func(c Check) Result { return c.run(ctx) }

	if g.Reach.Run != nil {
		reached := g.Reach.run(ctx)
		findings = append(findings, Finding{g.Reach.Name, g.On, reached})

		if reached.Status != OK && reached.Status != Warn {
			why := Result{Status: Skipped, Found: "the server was not reached: see " + g.Reach.Name}
			if reached.Status == Skipped {
				why.Found = reached.Found
				why.ErrorText = reached.ErrorText
			}
			find = func(Check) Result { return why }
		}
	}

	return append(findings, loop.All(g.Checks, func(c Check) Finding { return Finding{c.Name, g.On, find(c)} })...)
}

func (c Check) run(ctx context.Context) Result {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Deadline, deadline))
	defer cancel()
	return c.Run(ctx)
}
