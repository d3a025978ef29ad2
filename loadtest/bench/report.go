package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// report holds all results of a run.
type report struct {
	options  options
	machine  []fact
	servers  []fact
	bars     []bar
	sections []*section
	took     time.Duration
}

// fact is a property of the machine or of a server.
type fact struct{ name, value string }

// section holds the results of a scenario.
type section struct {
	name, title string
	samples     []*sample // in chronological order
	notes       []string
	failed      error
}

// bar is a ratio with its target.
type bar struct {
	what        string
	values      []float64 // one per round
	byCPU       []float64 // the same ratio of answers per second of CPU time; may be empty
	least, most float64   // the target; at most one is set, and without either the ratio is only reported
}

func (r *report) add(b bar) { r.bars = append(r.bars, b) }

// addRates adds the ratio of the answers/s of two subjects, and the same by the CPU time of all processes. On an
// otherwise idle machine the two are equal.
func (r *report) addRates(sec *section, what, subject, reference string, least float64) {
	r.add(bar{what: what, values: sec.ratios(subject, reference), byCPU: sec.perCPU(subject, reference), least: least})
}

// wanted returns the target as text.
func (b bar) wanted() string {
	switch {
	case b.least > 0:
		return "≥ " + short(b.least)
	case b.most > 0:
		return "≤ " + short(b.most)
	}
	return ""
}

// verdict reports whether the median meets the target.
func (b bar) verdict() string {
	m := median(b.values)
	switch {
	case b.least == 0 && b.most == 0:
		return ""
	case math.IsNaN(m):
		return "not measured"
	case b.least > 0 && m >= b.least, b.most > 0 && m <= b.most:
		return "met"
	}
	return "**missed**"
}

func (s *section) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// of returns the samples of a subject.
func (s *section) of(subject string) []*sample {
	var of []*sample
	for _, m := range s.samples {
		if m.subject == subject {
			of = append(of, m)
		}
	}
	return of
}

// each returns one value per sample of a subject.
func (s *section) each(subject string, value func(*sample) float64) []float64 {
	var values []float64
	for _, m := range s.of(subject) {
		values = append(values, value(m))
	}
	return values
}

// ratios returns the ratios of the answers/s of two subjects, one per round.
func (s *section) ratios(a, b string) []float64 {
	return quotients(s.each(a, (*sample).rate), s.each(b, (*sample).rate))
}

// medians returns the ratios of the median latencies of two subjects, one per round.
func (s *section) medians(a, b string) []float64 {
	p50 := func(m *sample) float64 { return m.latency.percentile(50).Seconds() }
	return quotients(s.each(a, p50), s.each(b, p50))
}

// costs returns the ratios of the CPU time per answer of two subjects without the client's, one per round.
func (s *section) costs(a, b string) []float64 {
	cpu := func(m *sample) float64 { return m.perAnswer(m.cpu.system()) }
	return quotients(s.each(a, cpu), s.each(b, cpu))
}

// perCPU returns the ratios of the answers per second of CPU time of two subjects, one per round.
func (s *section) perCPU(a, b string) []float64 {
	cpu := func(m *sample) float64 { return m.perAnswer(m.cpu.all()) }
	return quotients(s.each(b, cpu), s.each(a, cpu))
}

// drains returns the seconds from the last answer until the workers had committed all orders, one per round.
func (s *section) drains(subject string) []float64 {
	return s.each(subject, func(m *sample) float64 { return m.drained.Seconds() })
}

// perAnswer returns the CPU time per answer in microseconds.
func (m *sample) perAnswer(d time.Duration) float64 {
	return float64(d.Microseconds()) / float64(cmp.Or(m.shared, m.counts))
}

// String returns the sample as a line of progress output.
func (m *sample) String() string {
	text := fmt.Sprintf("%9s/s  CPU %5s µs", short(m.rate()), short(m.perAnswer(m.cpu.all())))
	if m.latency.n > 0 {
		text += fmt.Sprintf("  p50 %-8v p95 %-8v p99 %-8v max %v",
			brief(m.latency.percentile(50)), brief(m.latency.percentile(95)), brief(m.latency.percentile(99)), brief(m.latency.longest))
	}
	if m.queued {
		text += fmt.Sprintf("  backlog %s, drained after %v", thousands(m.backlog), brief(m.drained))
	}
	return text
}

func brief(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// summary returns the report without the individual runs, for the terminal.
func (r *report) summary() string {
	var w strings.Builder
	isBar := func(b bar) bool { return b.least > 0 || b.most > 0 }
	r.writeBars(&w, "Targets", isBar)
	r.writeBars(&w, "Other ratios", func(b bar) bool { return !isBar(b) })
	for _, s := range r.sections {
		fmt.Fprintf(&w, "\n## %s\n\n", s.title)
		s.write(&w)
	}
	return w.String()
}

// writeBars writes a table of the ratios for which is returns true.
func (r *report) writeBars(w *strings.Builder, title string, is func(bar) bool) {
	for i, b := range slices.DeleteFunc(slices.Clone(r.bars), func(b bar) bool { return !is(b) }) {
		if i == 0 {
			fmt.Fprintf(w, "\n## %s\n\n| what | ratio: median (min – max) | by CPU time | target | |\n|---|---|---|---|---|\n", title)
		}
		verdict, byCPU := b.verdict(), ""
		if r.options.quick && verdict != "" {
			verdict = "not judged (-quick)"
		}
		if len(b.byCPU) > 0 {
			byCPU = short(median(b.byCPU))
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", b.what, spread(b.values), byCPU, b.wanted(), verdict)
	}
}

func (s *section) write(w *strings.Builder) {
	for _, n := range s.notes {
		fmt.Fprintf(w, "%s\n\n", n)
	}
	if s.failed != nil {
		fmt.Fprintf(w, "**Failed:**\n\n```\n%v\n```\n\n", s.failed)
	}
	if len(s.samples) == 0 {
		return
	}
	w.WriteString("| | answers/s | p50 ms | p95 ms | p99 ms | max ms | CPU µs per answer: server | MariaDB | Redis | client | all |" +
		" Go allocations | orders per batch |\n" + strings.Repeat("|---", 13) + "|\n")
	for _, subject := range s.subjects() {
		cells := []string{subject, spread(s.each(subject, (*sample).rate))}
		for _, column := range columns {
			cells = append(cells, short(median(s.each(subject, column))))
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
	s.writeQueues(w)
}

// columns are the values of which only the median is shown.
var columns = []func(*sample) float64{
	func(m *sample) float64 { return m.millis(50) },
	func(m *sample) float64 { return m.millis(95) },
	func(m *sample) float64 { return m.millis(99) },
	func(m *sample) float64 { return m.millis(100) },
	func(m *sample) float64 { return m.perAnswer(m.cpu.server) },
	func(m *sample) float64 { return m.perAnswer(m.cpu.database) },
	func(m *sample) float64 { return m.perAnswer(m.cpu.redis) },
	func(m *sample) float64 { return m.perAnswer(m.cpu.client) },
	func(m *sample) float64 { return m.perAnswer(m.cpu.all()) },
	func(m *sample) float64 { return m.allocs },
	func(m *sample) float64 { return m.batched },
}

// millis returns a percentile of the latency in milliseconds, or NaN if it was not measured.
func (m *sample) millis(percentile float64) float64 {
	if m.latency.n == 0 {
		return math.NaN()
	}
	return float64(m.latency.percentile(percentile).Microseconds()) / 1000
}

// subjects returns the measured subjects in the order of the first round.
func (s *section) subjects() []string {
	var names []string
	for _, m := range s.samples {
		if !slices.Contains(names, m.subject) {
			names = append(names, m.subject)
		}
	}
	return names
}

// writeQueues writes the backlog of the workers.
func (s *section) writeQueues(w *strings.Builder) {
	for _, subject := range s.subjects() {
		of := s.of(subject)
		if !of[0].queued {
			continue
		}
		fmt.Fprintf(w, "\n%s: %s orders were not committed at the last answer; all were committed %s s later.\n", subject,
			spread(s.each(subject, func(m *sample) float64 { return float64(m.backlog) })), spread(s.drains(subject)))
	}
}
