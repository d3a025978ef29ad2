package main

import (
	"fmt"
	"strings"
)

// markdown is the whole report, as it is kept in the repository.
func (r *report) markdown() string {
	var w strings.Builder
	w.WriteString("# Measured\n\nWritten by `make bench`, which runs `go run ./loadtest/bench`; `-help` lists its flags. ")
	fmt.Fprintf(&w, "This run took %s. Compare the ratios, which are of one round on one machine, not the numbers.\n\n", r.took)
	r.writeMethod(&w)
	w.WriteString("\n## Machine\n\n| | |\n|---|---|\n")
	for _, f := range append(r.machine, r.servers...) {
		fmt.Fprintf(&w, "| %s | %s |\n", f.name, f.value)
	}
	w.WriteString("\n")
	w.WriteString(r.summary())
	r.writeRuns(&w)
	return w.String()
}

// writeMethod says how it was measured.
func (r *report) writeMethod(w *strings.Builder) {
	o := r.options
	fmt.Fprintf(w, `- Client, server, MariaDB and Redis share the machine and talk over 127.0.0.1. The client keeps its connections and
  sends each request as soon as the last one of the connection is answered; latencies are those of such a closed loop.
- %d rounds, in which the subjects take turns; a run ends after %s, or when each of %s users has bought once. Ratios are
  of the runs of one round; of them and of all numbers the median is shown.
- Every request carries a valid JWT of its own user. An order counts when its answer has come: 201 after the commit, 202
  when it is in the queue.
- After each run the orders answered were as many as the rows in the database, and after each round `+"`seckill verify`"+`
  found every invariant to hold.
`, o.rounds, o.seconds, thousands(int64(o.orders)))
}

// writeRuns lists every single run.
func (r *report) writeRuns(w *strings.Builder) {
	w.WriteString("\n## Single runs\n\n| scenario | subject | connections | answers | seconds | answers/s | p50 ms | p99 ms | behind | done after s |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range r.sections {
		for _, m := range s.samples {
			behind, done := "", ""
			if m.queued {
				behind, done = thousands(m.backlog), short(m.drained.Seconds())
			}
			fmt.Fprintf(w, "| %s | %s | %d | %s | %.2f | %s | %s | %s | %s | %s |\n", s.name, m.subject, m.conns, thousands(m.total()),
				m.elapsed.Seconds(), short(m.rate()), short(millis(m.latency.percentile(50))), short(millis(m.latency.percentile(99))), behind, done)
		}
	}
}
