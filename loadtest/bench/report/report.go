// Package report holds the results of a benchmark, computes ratios between its runs, and writes both as Markdown.
package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Report holds all results of a run.
type Report struct {
	// Whether the runs are too short for verdicts.
	Quick  bool
	Rounds int // per scenario
	// Maximum length of a run.
	RunTime time.Duration
	// Each orders once per run.
	Users    int
	Machine  []Fact
	Servers  []Fact
	Sections []*Section
	// Length of the benchmark.
	Took time.Duration
	bars []Bar
}

// Fact is a property of the machine or of a server.
type Fact struct{ Name, Value string }

// Section holds the results of a scenario.
type Section struct {
	Name, Title string
	// In chronological order.
	Samples []*Sample
	// Nil if the scenario succeeded.
	Failed error
	notes  []string
}

// Bar is a ratio with its target.
type Bar struct {
	What string
	// One per round.
	Values []float64
	// The same ratio of answers per second of CPU time; may be empty.
	ByCPU []float64
	// The target; at most one is set, and without either the ratio is only reported.
	Least, Most float64
}

// Add adds a ratio to the report.
func (r *Report) Add(b Bar) { r.bars = append(r.bars, b) }

// AddRates adds the ratio of the answers/s of two subjects, and the same by the CPU time of all processes. On an
// otherwise idle machine the two are equal.
func (r *Report) AddRates(sec *Section, what, subject, reference string, least float64) {
	r.Add(Bar{
		What:   what,
		Values: sec.Ratios(subject, reference),
		ByCPU:  sec.perCPU(subject, reference),
		Least:  least,
	})
}

// wanted returns the target as text.
func (b Bar) wanted() string {
	switch {
	case b.Least > 0:
		return "≥ " + short(b.Least)
	case b.Most > 0:
		return "≤ " + short(b.Most)
	}
	return ""
}

// verdict reports whether the median meets the target.
func (b Bar) verdict() string {
	m := median(b.Values)
	switch {
	case b.Least == 0 && b.Most == 0:
		return ""
	case math.IsNaN(m):
		return "not measured"
	case b.Least > 0 && m >= b.Least, b.Most > 0 && m <= b.Most:
		return "met"
	}

	return "**missed**"
}

// Note adds a formatted paragraph to the section.
func (s *Section) Note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// of returns the samples of a subject.
func (s *Section) of(subject string) []*Sample {
	var of []*Sample
	for _, m := range s.Samples {
		if m.Subject == subject {
			of = append(of, m)
		}
	}
	return of
}

// each returns one value per sample of a subject.
func (s *Section) each(subject string, value func(*Sample) float64) []float64 {
	var values []float64
	for _, m := range s.of(subject) {
		values = append(values, value(m))
	}
	return values
}

// Ratios returns the ratios of the answers/s of two subjects, one per round.
func (s *Section) Ratios(a, b string) []float64 {
	return Quotients(s.each(a, (*Sample).rate), s.each(b, (*Sample).rate))
}

// Medians returns the ratios of the median latencies of two subjects, one per round.
func (s *Section) Medians(a, b string) []float64 {
	p50 := func(m *Sample) float64 { return m.Latency.Percentile(50).Seconds() }
	return Quotients(s.each(a, p50), s.each(b, p50))
}

// Tails returns the ratios of the 99th percentiles of the latencies of two subjects, one per round.
func (s *Section) Tails(a, b string) []float64 {
	p99 := func(m *Sample) float64 { return m.Latency.Percentile(99).Seconds() }
	return Quotients(s.each(a, p99), s.each(b, p99))
}

// Costs returns the ratios of the CPU time per answer of two subjects without the client's, one per round.
func (s *Section) Costs(a, b string) []float64 {
	cpu := func(m *Sample) float64 { return m.perAnswer(m.CPU.system()) }
	return Quotients(s.each(a, cpu), s.each(b, cpu))
}

// perCPU returns the ratios of the answers per second of CPU time of two subjects, one per round.
func (s *Section) perCPU(a, b string) []float64 {
	cpu := func(m *Sample) float64 { return m.perAnswer(m.CPU.all()) }
	return Quotients(s.each(b, cpu), s.each(a, cpu))
}

// Drains returns the seconds from the last answer until the workers had committed all orders, one per round.
func (s *Section) Drains(subject string) []float64 {
	return s.each(subject, func(m *Sample) float64 { return m.Drained.Seconds() })
}

// Summary returns the report without the individual runs, for the terminal.
func (r *Report) Summary() string {
	var w strings.Builder
	isBar := func(b Bar) bool { return b.Least > 0 || b.Most > 0 }
	r.writeBars(&w, "Targets", isBar)
	r.writeBars(&w, "Other ratios", func(b Bar) bool { return !isBar(b) })
	for _, s := range r.Sections {
		fmt.Fprintf(&w, "\n## %s\n\n", s.Title)
		s.write(&w)
	}
	return w.String()
}

// writeBars writes a table of the ratios for which is returns true.
func (r *Report) writeBars(w *strings.Builder, title string, is func(Bar) bool) {
	for i, b := range slices.DeleteFunc(slices.Clone(r.bars), func(b Bar) bool { return !is(b) }) {
		if i == 0 {
			fmt.Fprintf(w, "\n## %s\n\n| what | ratio: median (min – max) | by CPU time | target | |\n|---|---|---|---|---|\n", title)
		}

		verdict := b.verdict()
		byCPU := ""

		if r.Quick && verdict != "" {
			verdict = "not judged (-quick)"
		}
		if len(b.ByCPU) > 0 {
			byCPU = short(median(b.ByCPU))
		}

		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", b.What, spread(b.Values), byCPU, b.wanted(), verdict)
	}
}

func (s *Section) write(w *strings.Builder) {
	for _, n := range s.notes {
		fmt.Fprintf(w, "%s\n\n", n)
	}

	if s.Failed != nil {
		fmt.Fprintf(w, "**Failed:**\n\n```\n%v\n```\n\n", s.Failed)
	}

	if len(s.Samples) == 0 {
		return
	}

	w.WriteString("| | answers/s | p50 ms | p95 ms | p99 ms | max ms | CPU µs per answer: server | MariaDB | Redis | client | all |" +
		" Go allocations | orders per batch |\n" + strings.Repeat("|---", 13) + "|\n")

	for _, subject := range s.subjects() {
		cells := []string{subject, spread(s.each(subject, (*Sample).rate))}
		for _, column := range columns {
			cells = append(cells, short(median(s.each(subject, column))))
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}

	s.writeQueues(w)
}

// columns are the values of which only the median is shown.
var columns = []func(*Sample) float64{
	func(m *Sample) float64 { return m.millis(50) },
	func(m *Sample) float64 { return m.millis(95) },
	func(m *Sample) float64 { return m.millis(99) },
	func(m *Sample) float64 { return m.millis(100) },
	func(m *Sample) float64 { return m.perAnswer(m.CPU.Server) },
	func(m *Sample) float64 { return m.perAnswer(m.CPU.Database) },
	func(m *Sample) float64 { return m.perAnswer(m.CPU.Redis) },
	func(m *Sample) float64 { return m.perAnswer(m.CPU.Client) },
	func(m *Sample) float64 { return m.perAnswer(m.CPU.all()) },
	func(m *Sample) float64 { return m.Allocs },
	func(m *Sample) float64 { return m.Batched },
}

// subjects returns the measured subjects in the order of the first round.
func (s *Section) subjects() []string {
	var names []string
	for _, m := range s.Samples {
		if !slices.Contains(names, m.Subject) {
			names = append(names, m.Subject)
		}
	}
	return names
}

// writeQueues writes the backlog of the workers.
func (s *Section) writeQueues(w *strings.Builder) {
	for _, subject := range s.subjects() {
		of := s.of(subject)
		if !of[0].Queued {
			continue
		}
		fmt.Fprintf(w, "\n%s: %s orders were not committed at the last answer; all were committed %s s later.\n", subject,
			spread(s.each(subject, func(m *Sample) float64 { return float64(m.Backlog) })), spread(s.Drains(subject)))
	}
}
