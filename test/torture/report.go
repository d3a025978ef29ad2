package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

// Report is the result of a campaign. Durations are in nanoseconds in JSON.
type Report struct {
	Config

	Buyers int `json:"buyers"`
	// That were answered, with those cancelled later.
	Orders  int           `json:"orders"`
	Elapsed time.Duration `json:"elapsed_ns"`
	Kinds   []KindReport  `json:"kinds"`
	Faults  []*Fault      `json:"faults"`
	// To purchases by code.
	Answers map[string]int `json:"answers"`
	// Orders by what was done with them.
	Followed map[string]int `json:"followed"`
	// Of the stock by admins.
	Changes int `json:"changes"`
	// During the campaign.
	Checks int `json:"checks"`
	// Starts of servers that failed, because of another fault, and were repeated.
	Restarts int `json:"restarts"`
	// Of all promises.
	Verdicts   []domain.Verdict `json:"verdicts"`
	Violations []Violation      `json:"violations"`
	// Violations that are not listed.
	Further int `json:"further"`
}

// KindReport summarizes the faults of a kind.
type KindReport struct {
	Kind     string `json:"kind"`
	Injected int    `json:"injected"`
	// Injections with an error.
	Failed int `json:"failed"`
	// Until the target worked again.
	MedianEnd time.Duration `json:"median_time_ns"`
	MaxEnd    time.Duration `json:"max_time_ns"`
	// Longest time without an answer to a purchase.
	MedianStop time.Duration `json:"median_pause_ns"`
	MaxStop    time.Duration `json:"max_pause_ns"`
}

var (
	// ErrBroken means that a promise was broken.
	ErrBroken = errors.New("promises are broken")
	// ErrNotInjected means that faults could not be injected. The promises hold.
	ErrNotInjected = errors.New("faults could not be injected")
)

// Err returns ErrBroken if a promise was broken, and ErrNotInjected if a fault failed in another way than planned, such as
// a server that did not start again.
func (r *Report) Err() error {
	if n := len(r.Violations) + r.Further; n > 0 {
		return fmt.Errorf("%w: %d violations", ErrBroken, n)
	}

	failed := 0
	for _, k := range r.Kinds {
		failed += k.Failed
	}

	if failed > 0 {
		return fmt.Errorf("%w: %d", ErrNotInjected, failed)
	}

	return nil
}

func (c *campaign) report(elapsed time.Duration) *Report {
	l := c.ledger
	r := &Report{
		Config:     c.cfg,
		Buyers:     len(c.purchases),
		Orders:     l.orders(),
		Elapsed:    elapsed,
		Faults:     c.faults,
		Answers:    l.codes,
		Followed:   map[string]int{},
		Changes:    len(l.changes),
		Checks:     c.checks,
		Restarts:   int(c.system.failedStarts.Load()),
		Violations: l.violations,
		Further:    l.further,
	}

	for i, e := range l.entries {
		if e.order != 0 {
			r.Followed[string(c.purchases[i].fate)]++
		}
	}

	c.measurePauses()
	for _, k := range kindsOf(c.cfg) {
		r.Kinds = append(r.Kinds, kindReport(k.name, c.faults))
	}

	for _, id := range []string{"I1", "I2", "I3", "I4", "I5", "I6"} {
		n := 0
		for _, v := range l.violations {
			if v.Invariant == id {
				n++
			}
		}

		r.Verdicts = append(r.Verdicts, domain.NewVerdict(id, n == 0, "%d violations", n))
	}

	return r
}

// measurePauses sets the pauses of the faults. After the last buyer came, no answers are expected.
func (c *campaign) measurePauses() {
	var answered []time.Duration
	for _, e := range c.ledger.entries {
		answered = append(answered, e.ended.Sub(c.ledger.began))
	}

	slices.Sort(answered)
	for _, f := range c.faults {
		f.Pause = longestPause(answered, f.Begin, min(f.End, c.lastCame))
	}
}

// longestPause returns the longest time between two answers that overlaps the time from begin to end. The answers are
// sorted.
func longestPause(answered []time.Duration, begin, end time.Duration) time.Duration {
	var longest time.Duration
	first, _ := slices.BinarySearch(answered, begin)
	for i := max(first, 1); i < len(answered) && answered[i-1] <= end; i++ {
		longest = max(longest, answered[i]-answered[i-1])
	}

	return longest
}

func kindReport(name string, faults []*Fault) KindReport {
	r := KindReport{Kind: name}
	var ends, pauses []time.Duration
	for _, f := range faults {
		if f.Kind != name {
			continue
		}

		r.Injected++
		if f.Error != "" {
			r.Failed++
		}

		ends = append(ends, f.End-f.Begin)
		pauses = append(pauses, f.Pause)
	}

	if r.Injected == 0 {
		return r
	}

	slices.Sort(ends)
	r.MedianEnd = ends[len(ends)/2]
	r.MaxEnd = ends[len(ends)-1]

	slices.Sort(pauses)
	r.MedianStop = pauses[len(pauses)/2]
	r.MaxStop = pauses[len(pauses)-1]

	return r
}

// WriteMarkdown writes the report as Markdown.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	line("# Fault campaign: lane `%s`, Redis %s, database %s, seed %d\n", r.Lane, r.Redis, r.Database, r.Seed)
	line("%d orders of %d buyers on %d servers in %s, %.0f a second; %d checks meanwhile, %d changes of the stock by admins.\n",
		r.Orders, r.Buyers, r.Servers, seconds(r.Elapsed), float64(r.Orders)/r.Elapsed.Seconds(), r.Checks, r.Changes)

	line("| promise | | |\n|---|---|---|")
	for _, v := range r.Verdicts {
		line("| %s %s | %s | %s |", v.ID, v.Title, map[bool]string{true: "**BROKEN**", false: "holds"}[v.Broken()], v.Detail)
	}

	line("\n| fault | injected | failed | target works again, median / longest | no answer, median / longest |\n|---|---|---|---|---|")
	for _, k := range r.Kinds {
		line("| %s | %d | %d | %s / %s | %s / %s |", k.Kind, k.Injected, k.Failed,
			seconds(k.MedianEnd), seconds(k.MaxEnd), seconds(k.MedianStop), seconds(k.MaxStop))
	}

	line("\n*No answer* is the longest time without an order or a refusal for any buyer that overlaps a fault. Faults overlap each\n" +
		"other.\n")
	line("Answers to purchases: %s.  ", counts(r.Answers))
	line("Orders: %s.  ", counts(r.Followed))
	line("Starts of servers that failed, because of another fault, and were repeated: %d.", r.Restarts)

	r.writeProblems(line)

	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeProblems(line func(format string, args ...any)) {
	if len(r.Violations) > 0 {
		line("\n## Violations\n")
	}
	for _, v := range r.Violations {
		line("- %s, %s: %s", v.Invariant, seconds(v.At), v.Detail)
	}
	if r.Further > 0 {
		line("- %d more", r.Further)
	}

	titled := false
	for _, f := range r.Faults {
		if f.Error == "" {
			continue
		}

		if !titled {
			line("\n## Failed injections\n")
			titled = true
		}
		line("- %d, %s of %s: %s", f.Number, f.Kind, f.Target, f.Error)
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func counts(numbers map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, numbers[name]))
	}

	return strings.Join(parts, ", ")
}

func (c *campaign) printProgress(out io.Writer, faults *injector) func(context.Context) {
	return func(ctx context.Context) {
		for loop.Sleep(ctx, 10*time.Second) == nil {
			fmt.Fprintf(out, "%.0f s: %d orders, %d faults\n", time.Since(c.ledger.began).Seconds(), c.ledger.orders(), faults.injected())
		}
	}
}
