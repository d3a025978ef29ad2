package rig

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// A server on a busy machine may answer 503 to a few requests, or to a part of many. Purchases beyond those that it decides
// at once do not count: how many there are depends on the machine, and a server that decides none serves no buyer of a rush.
const (
	allowedRefusals = 20
	refusalShare    = 2 // one request of so many
)

// MayRefuse permits the server any number of answers 503, because the test plants what makes it refuse.
func (p *Server) MayRefuse() { p.mayRefuse = true }

var (
	requestCount  = regexp.MustCompile(`(?m)^seckill_http_requests_total\{(\S*)\} (\S+)`)
	overloadCount = regexp.MustCompile(`(?m)^seckill_order_seconds_count\{\S*outcome="overloaded"\S*\} (\S+)`)
)

// judgeRefusals returns an error if the metrics of a server have too many answers 503. Probes of /readyz do not count either:
// 503 is one of their two regular answers.
func judgeRefusals(metrics string) error {
	var requests, refused float64
	var routes []string
	for _, m := range requestCount.FindAllStringSubmatch(metrics, -1) {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return fmt.Errorf("metric %q: %w", m[0], err)
		}
		if strings.Contains(m[1], `route="/readyz"`) {
			continue
		}
		requests += n
		if strings.Contains(m[1], `status="503"`) {
			refused += n
			routes = append(routes, m[0])
		}
	}

	if m := overloadCount.FindStringSubmatch(metrics); m != nil {
		overloaded, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return fmt.Errorf("metric %q: %w", m[0], err)
		}
		requests -= overloaded
		refused -= overloaded
	}

	if refused > allowedRefusals && refused*refusalShare > requests {
		return fmt.Errorf("%.0f of %.0f requests were answered 503:\n%s", refused, requests, strings.Join(routes, "\n"))
	}
	return nil
}

// Kinds of what the helpers of the tests forgive: they repeat it.
const (
	forgivenAnswer  = "answers 503"
	forgivenDial    = "dial time-outs"
	forgivenPage    = "time-outs of pages"
	forgivenCommand = "commands without an answer in time"
)

// tally counts what was forgiven in a run, by kind.
type tally struct {
	mu      sync.Mutex
	servers int
	counts  map[string]int
}

// forgiven counts for the process of the tests.
var forgiven = tally{counts: map[string]int{}}

func (f *tally) add(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[kind]++
}

// ForgivePage counts an answer that a page would have given up, because the test repeats the click.
func ForgivePage() { forgiven.add(forgivenPage) }

// ForgiveDial counts a connection that a busy machine ended, because the test opens another one.
func ForgiveDial() { forgiven.add(forgivenDial) }

// forgive503 reports whether a status is 503, and counts it, because the caller repeats the request.
func forgive503(status int) bool {
	if status != http.StatusServiceUnavailable {
		return false
	}
	forgiven.add(forgivenAnswer)
	return true
}

func (f *tally) addServer() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers++
}

// String returns the line that is printed at the end of a run.
func (f *tally) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("rig: forgave %d %s, %d %s, %d %s and %d %s of %d servers", f.counts[forgivenAnswer], forgivenAnswer,
		f.counts[forgivenDial], forgivenDial, f.counts[forgivenPage], forgivenPage, f.counts[forgivenCommand], forgivenCommand, f.servers)
}

// report prints what was forgiven.
func (f *tally) report() {
	if f.servers > 0 {
		fmt.Fprintln(os.Stderr, f)
	}
}
