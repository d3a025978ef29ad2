package main

import (
	"context"
	"encoding/json"
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
	Lane       string           `json:"lane"`
	Redis      string           `json:"redis"`
	Database   string           `json:"database"`
	Seed       uint64           `json:"seed"`
	Servers    int              `json:"servers"`
	Buyers     int              `json:"buyers"`
	Orders     int              `json:"orders"` // that were answered, with those cancelled later
	Elapsed    time.Duration    `json:"elapsed_ns"`
	Kinds      []KindReport     `json:"kinds"`
	Faults     []*Fault         `json:"faults"`
	Answers    map[string]int   `json:"answers"`  // to purchases by code
	Followed   map[string]int   `json:"followed"` // orders by what was done with them
	Changes    int              `json:"changes"`  // of the stock by admins
	Checks     int              `json:"checks"`   // during the campaign
	Restarts   int              `json:"restarts"` // starts of servers that failed, because of another fault, and were repeated
	Verdicts   []domain.Verdict `json:"verdicts"` // of all promises
	Violations []Violation      `json:"violations"`
	Further    int              `json:"further"` // violations that are not listed
}

// KindReport summarizes the faults of a kind.
type KindReport struct {
	Kind       string        `json:"kind"`
	Injected   int           `json:"injected"`
	Failed     int           `json:"failed"`         // injections with an error
	MedianEnd  time.Duration `json:"median_time_ns"` // until the target worked again
	MaxEnd     time.Duration `json:"max_time_ns"`
	MedianStop time.Duration `json:"median_pause_ns"` // longest time without an answer to a purchase
	MaxStop    time.Duration `json:"max_pause_ns"`
}

// Err returns an error if a promise was broken, and ErrNotInjected if a fault failed in another way than planned, such as a
// server that did not start again.
func (r *Report) Err() error {
	if n := len(r.Violations) + r.Further; n > 0 {
		return fmt.Errorf("promises are broken: %d violations", n)
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

// ErrNotInjected means that faults could not be injected. The promises hold.
var ErrNotInjected = errors.New("faults could not be injected")

// report returns the report of a campaign after the final checks.
func (c *campaign) report(elapsed time.Duration) *Report {
	l := c.ledger
	r := &Report{
		Lane: c.cfg.Lane, Redis: c.cfg.Redis, Database: c.cfg.Database, Seed: c.cfg.Seed, Servers: c.cfg.Servers, Buyers: len(c.purchases), Orders: len(l.placed), Elapsed: elapsed,
		Faults: c.faults, Answers: l.codes, Followed: map[string]int{}, Changes: len(l.changes), Checks: c.checks,
		Restarts:   int(c.system.failedStarts.Load()),
		Violations: l.violations, Further: l.further,
	}
	var answered []time.Duration
	var last time.Time // when the last buyer came
	for i, e := range l.entries {
		answered = append(answered, e.ended.Sub(l.began))
		if e.began.After(last) && !e.again {
			last = e.began
		}
		if e.order != 0 {
			r.Followed[c.purchases[i].fate.String()]++
		}
	}
	slices.Sort(answered)
	for _, f := range c.faults {
		f.Pause = longestPause(answered, f.Begin, min(f.End, last.Sub(l.began)))
	}
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

// longestPause returns the longest time between two answers that overlaps the time from begin to end. The answers are
// sorted.
func longestPause(answered []time.Duration, begin, end time.Duration) (longest time.Duration) {
	i, _ := slices.BinarySearch(answered, begin)
	for i = max(i, 1); i < len(answered) && answered[i-1] <= end; i++ {
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
		if f.Error != "" {
			r.Failed++
		}
		r.Injected++
		ends, pauses = append(ends, f.End-f.Begin), append(pauses, f.Pause)
	}
	if r.Injected > 0 {
		slices.Sort(ends)
		slices.Sort(pauses)
		r.MedianEnd, r.MaxEnd = ends[len(ends)/2], ends[len(ends)-1]
		r.MedianStop, r.MaxStop = pauses[len(pauses)/2], pauses[len(pauses)-1]
	}
	return r
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteMarkdown writes the report as Markdown.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
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
	if len(r.Violations) > 0 {
		line("\n## Violations\n")
		for _, v := range r.Violations {
			line("- %s, %s: %s", v.Invariant, seconds(v.At), v.Detail)
		}
		if r.Further > 0 {
			line("- %d more", r.Further)
		}
	}
	var failed []string
	for _, f := range r.Faults {
		if f.Error != "" {
			failed = append(failed, fmt.Sprintf("- %d, %s of %s: %s", f.Number, f.Kind, f.Target, f.Error))
		}
	}
	if len(failed) > 0 {
		line("\n## Failed injections\n\n%s", strings.Join(failed, "\n"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// counts lists numbers by name.
func counts(numbers map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, numbers[name]))
	}
	return strings.Join(parts, ", ")
}

// printProgress returns a function that prints a line every 10 s until its context ends.
func (c *campaign) printProgress(out io.Writer, faults *injector) func(context.Context) {
	return func(ctx context.Context) {
		for loop.Sleep(ctx, 10*time.Second) == nil {
			fmt.Fprintf(out, "%.0f s: %d orders, %d faults\n", time.Since(c.ledger.began).Seconds(), c.ledger.orders(), faults.injected())
		}
	}
}
