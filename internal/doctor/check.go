// Package doctor looks at what the program depends on (a database, Redis, the machine) and says what to change before a
// sale. It asks, and changes no data and no setting.
//
// What belongs together is a [Group]: one server, whose checks run side by side once it has answered, or are skipped if
// it has not. [Run] runs groups side by side, each check with a deadline of its own.
//
// A rule is a small function from what the server told to a [Result]. Each has a name; docs/doctor.md explains all of
// them, and a test holds the two lists together.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Status is the verdict of a check.
type Status string

// The verdicts. Skipped says that the check does not apply, or that somebody forbids to ask.
const (
	OK      Status = "ok"
	Warn    Status = "warn"
	Fail    Status = "fail"
	Skipped Status = "skipped"
)

// Result is what a check has found. Neither text holds a secret, but for what Heard may bring along.
type Result struct {
	Status Status `json:"status"`
	Found  string `json:"found"`
	Change string `json:"change,omitempty"` // the setting, SQL or command that cures it; empty if nothing is to be done
	// Unasked says that something needed did not answer, so that nobody knows.
	Unasked bool `json:"unasked,omitempty"`
	// Heard is the end of Found that is an error's text, a server's perhaps: whoever prints it takes the secrets out.
	Heard string `json:"-"`
}

// Good is a result of which nothing has to be changed.
func Good(format string, args ...any) Result {
	return Result{Status: OK, Found: fmt.Sprintf(format, args...)}
}

// Bad is a result with the line that says what to change.
func Bad(status Status, change, format string, args ...any) Result {
	return Result{Status: status, Found: fmt.Sprintf(format, args...), Change: change}
}

// Heard is a result whose finding ends with an error's text.
func Heard(status Status, change, found string, err error) Result {
	heard := oneLine(err.Error())
	return Result{Status: status, Found: found + heard, Change: change, Heard: heard}
}

// Masked is the finding, the secrets taken out of what was heard. Our own texts stay as they are: a password that is one
// of their words would be told by the gap.
func (r Result) Masked(secrets []string) string {
	if r.Heard == "" {
		return r.Found
	}
	heard := r.Heard
	for _, s := range secrets {
		heard = strings.ReplaceAll(heard, s, "***")
	}
	return strings.TrimSuffix(r.Found, r.Heard) + heard
}

// Unanswered is the result of a check whose server was asked and did not say. The deadline is told in plain words: a
// server that hangs is the worst that can be found.
func Unanswered(err error, change string) Result {
	var slow net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() {
		return Result{Status: Fail, Found: "no answer in time: it hangs, or something drops the packets", Change: change, Unasked: true}
	}
	r := Heard(Fail, change, "", err)
	r.Unasked = true
	return r
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// deadline bounds a check that names none. It is shorter than the 2.5 s after which the program's own connections give
// up, with an error that does not say why.
const deadline = 2 * time.Second

// Check is one question.
type Check struct {
	Name string
	// Deadline bounds Run; 0: 2 s.
	Deadline time.Duration
	// Run returns soon after its context ends.
	Run func(ctx context.Context) Result
}

// Group is what is asked of one server, or of nobody.
type Group struct {
	On string // which server, if there are several; empty otherwise
	// Reach comes first; unless it is ok or a warning, the checks are skipped. Its zero value asks nobody.
	Reach  Check
	Checks []Check
}

// Finding is the result of a check.
type Finding struct {
	Check string `json:"check"`
	On    string `json:"on,omitempty"`
	Result
}

// Names lists the checks of groups, each name once, in order.
func Names(groups []Group) []string {
	var names []string
	for _, g := range groups {
		for _, c := range append([]Check{g.Reach}, g.Checks...) {
			if c.Name != "" && !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// Run runs all checks and returns what they found, in the order of the groups. It lasts as long as the slowest group.
func Run(ctx context.Context, groups []Group) []Finding {
	found := make([][]Finding, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() { found[i] = g.run(ctx) })
	}
	wg.Wait()
	return slices.Concat(found...)
}

func (g Group) run(ctx context.Context) []Finding {
	findings := make([]Finding, len(g.Checks), len(g.Checks)+1)
	for i, c := range g.Checks {
		findings[i] = Finding{Check: c.Name, On: g.On}
	}
	if g.Reach.Run == nil {
		g.ask(ctx, findings)
		return findings
	}
	reached := Finding{Check: g.Reach.Name, On: g.On, Result: g.Reach.run(ctx)}
	if reached.Status == OK || reached.Status == Warn {
		g.ask(ctx, findings)
	} else {
		why := Result{Status: Skipped, Found: "it was not reached: see " + g.Reach.Name}
		if reached.Status == Skipped {
			why.Found, why.Heard = reached.Found, reached.Heard
		}
		for i := range findings {
			findings[i].Result = why
		}
	}
	return append([]Finding{reached}, findings...)
}

// ask runs the checks side by side.
func (g Group) ask(ctx context.Context, findings []Finding) {
	var wg sync.WaitGroup
	for i, c := range g.Checks {
		wg.Go(func() { findings[i].Result = c.run(ctx) })
	}
	wg.Wait()
}

func (c Check) run(ctx context.Context) Result {
	patience := c.Deadline
	if patience == 0 {
		patience = deadline
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.Run(ctx)
}

// rule is a check of something that was reached before.
type rule[T any] struct {
	name string
	run  func(of T, ctx context.Context) Result //nolint:revive // a method expression: the receiver comes first
}

// bind makes checks of rules.
func bind[T any](of T, rules []rule[T]) []Check {
	checks := make([]Check, len(rules))
	for i, r := range rules {
		checks[i] = Check{Name: r.name, Run: func(ctx context.Context) Result { return r.run(of, ctx) }}
	}
	return checks
}
