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
	Quick bool
	// Per scenario.
	Rounds int
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
type Fact struct {
	Name  string
	Value string
}

// Section holds the results of a scenario.
type Section struct {
	Name  string
	Title string
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
	// The target: one of the two.
	Least float64
	Most  float64
}

// Add adds a ratio to the report.
func (r *Report) Add(b Bar) { r.bars = append(r.bars, b) }

// AddRates adds the ratio of the answers/s of two subjects, and the same by the CPU time of all processes. On an
// otherwise idle machine the two are equal.
func (r *Report) AddRates(sec *Section, what, subject, reference string, least float64) {
	r.Add(Bar{
		What:   what,
		Values: sec.Ratios(subject, reference, (*Sample).Rate),
		ByCPU:  sec.Ratios(reference, subject, (*Sample).AllCPU),
		Least:  least,
	})
}

// AddCosts adds the ratio of the CPU times per order of two subjects, without the client's.
func (r *Report) AddCosts(sec *Section, subject, reference string, most float64) {
	r.Add(Bar{
		What:   fmt.Sprintf("CPU per order: %s / %s", subject, reference),
		Values: sec.Ratios(subject, reference, (*Sample).systemCPU),
		Most:   most,
	})
}

func (b Bar) wanted() string {
	if b.Least > 0 {
		return "≥ " + short(b.Least)
	}

	return "≤ " + short(b.Most)
}

func (b Bar) verdict() string {
	m := median(b.Values)
	switch {
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

func (s *Section) of(subject string) []*Sample {
	var of []*Sample
	for _, m := range s.Samples {
		if m.Subject == subject {
			of = append(of, m)
		}
	}

	return of
}

func (s *Section) each(subject string, value func(*Sample) float64) []float64 {
	var values []float64
	for _, m := range s.of(subject) {
		values = append(values, value(m))
	}

	return values
}

// Ratios returns the ratios of a value of two subjects, one per round.
func (s *Section) Ratios(a, b string, value func(*Sample) float64) []float64 {
	return Quotients(s.each(a, value), s.each(b, value))
}

// Summary returns the report without the individual runs, for the terminal.
func (r *Report) Summary() string {
	var w strings.Builder
	r.writeBars(&w)
	for _, s := range r.Sections {
		fmt.Fprintf(&w, "\n## %s\n\n", s.Title)
		s.write(&w)
	}

	return w.String()
}

func (r *Report) writeBars(w *strings.Builder) {
	w.WriteString("\n## Targets\n\n| what | ratio: median (min – max) | by CPU time | target | |\n|---|---|---|---|---|\n")

	for _, b := range r.bars {
		verdict := b.verdict()
		if r.Quick {
			verdict = "not judged (-quick)"
		}

		byCPU := ""
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
		cells := []string{subject, spread(s.each(subject, (*Sample).Rate))}
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
	(*Sample).AllCPU,
	func(m *Sample) float64 { return m.Allocs },
	func(m *Sample) float64 { return m.Batched },
}

func (s *Section) subjects() []string {
	var names []string
	for _, m := range s.Samples {
		if !slices.Contains(names, m.Subject) {
			names = append(names, m.Subject)
		}
	}

	return names
}

func (s *Section) writeQueues(w *strings.Builder) {
	for _, subject := range s.subjects() {
		of := s.of(subject)
		if !of[0].Queued {
			continue
		}

		backlog := spread(s.each(subject, func(m *Sample) float64 { return float64(m.Backlog) }))
		drained := spread(s.each(subject, func(m *Sample) float64 { return m.Drained.Seconds() }))
		fmt.Fprintf(w, "\n%s: %s orders were not committed at the last answer; all were committed %s s later.\n", subject, backlog, drained)
	}
}
