package main

import (
	"fmt"
	"strings"
)

// markdown returns the whole report, the text of loadtest/RESULTS.md.
func (r *report) markdown() string {
	var w strings.Builder
	w.WriteString("# Measured\n\nWritten by `make bench`, which runs `go run ./loadtest/bench`; `-help` lists its flags. ")
	fmt.Fprintf(&w, "This run took %s. Compare the ratios, each of two runs in one round on one machine, rather than the numbers.\n\n", r.took)
	r.writeMethod(&w)
	w.WriteString("\n## Machine\n\n| | |\n|---|---|\n")
	for _, f := range append(r.machine, r.servers...) {
		fmt.Fprintf(&w, "| %s | %s |\n", f.name, f.value)
	}
	w.WriteString(r.summary())
	r.writeRuns(&w)
	return w.String()
}

// writeMethod describes how the numbers were measured.
func (r *report) writeMethod(w *strings.Builder) {
	o := r.options
	fmt.Fprintf(w, `- Client, server, MariaDB and Redis share the machine and talk over 127.0.0.1. The client keeps its connections open
  and sends each request as soon as the previous one of the connection is answered; latencies are those of such a closed
  loop.
- %d rounds, in which the subjects take turns. A run ends after %s, or when each of %s users has bought once. A ratio
  compares two runs of one round. All numbers are medians over the rounds.
- Every request carries a valid JWT of its own user. The bare gin gets the same requests as the server, byte for byte, and
  its answers have the same size.
- An order counts when it is answered: 201 after the commit, 202 when it is in the queue.
- After each run, the database had exactly one row for every order answered. After each round, `+"`seckill verify`"+`
  found that all invariants hold.
- CPU time is user and system time of each process, from /proc, divided by the answers that count. It depends less than the
  rates on other work of the machine, so ratios of rates are also shown "by CPU time": the ratio of answers per second of CPU
  time of all processes, client included. "CPU per order" is that of server, MariaDB and Redis, without the client.
- Where two loads run at the same time, CPU times are of both loads, per answer of either.
`, o.rounds, o.seconds, thousands(int64(o.orders)))
}

// writeRuns lists the single runs.
func (r *report) writeRuns(w *strings.Builder) {
	w.WriteString("\n## Single runs\n\n| scenario | subject | connections | answers | seconds | answers/s | p50 ms | p99 ms | CPU µs per answer | behind | done after s |\n" +
		strings.Repeat("|---", 11) + "|\n")
	for _, s := range r.sections {
		for _, m := range s.samples {
			behind, done := "", ""
			if m.queued {
				behind, done = thousands(m.backlog), short(m.drained.Seconds())
			}
			fmt.Fprintf(w, "| %s | %s | %d | %s | %.2f | %s | %s | %s | %s | %s | %s |\n", s.name, m.subject, m.conns, thousands(m.counts),
				m.elapsed.Seconds(), short(m.rate()), short(m.millis(50)), short(m.millis(99)), short(m.perAnswer(m.cpu.all())), behind, done)
		}
	}
}
