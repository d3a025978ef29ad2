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
	// One request of so many.
	refusalShare = 2
)

// MayRefuse permits the server any number of answers 503, because the test plants what makes it refuse.
func (p *Server) MayRefuse() { p.mayRefuse = true }

var (
	requestCount  = regexp.MustCompile(`(?m)^seckill_http_requests_total\{(\S*)\} (\S+)`)
	overloadCount = regexp.MustCompile(`(?m)^seckill_order_seconds_count\{\S*outcome="overloaded"\S*\} (\S+)`)
)

// JudgeRefusals returns an error if the metrics of a server have too many answers 503. Probes of /readyz do not count either:
// 503 is one of their two regular answers.
func JudgeRefusals(metrics string) error {
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
	ForgivenAnswer  = "answers 503"
	ForgivenDial    = "dial time-outs"
	ForgivenCommand = "commands without an answer in time"
)

// Tally counts what was forgiven in a run, by kind. The zero value is empty.
type Tally struct {
	mu      sync.Mutex
	servers int
	counts  map[string]int
}

// forgiven counts for the process of the tests.
var forgiven Tally

// Forgive counts what a test repeats.
func Forgive(kind string) { forgiven.Add(kind) }

// Add counts one of a kind.
func (f *Tally) Add(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[string]int{}
	}
	f.counts[kind]++
}

// forgive503 reports whether a status is 503, and counts it, because the caller repeats the request.
func forgive503(status int) bool {
	if status != http.StatusServiceUnavailable {
		return false
	}

	Forgive(ForgivenAnswer)
	return true
}

// AddServer counts a server.
func (f *Tally) AddServer() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers++
}

// String returns the line that is printed at the end of a run.
func (f *Tally) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()

	return fmt.Sprintf("rig: forgave %d %s, %d %s and %d %s of %d servers", f.counts[ForgivenAnswer], ForgivenAnswer,
		f.counts[ForgivenDial], ForgivenDial, f.counts[ForgivenCommand], ForgivenCommand, f.servers)
}

func (f *Tally) report() {
	if f.servers > 0 {
		fmt.Fprintln(os.Stderr, f)
	}
}
