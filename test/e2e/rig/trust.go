package rig

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
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

// forgiven counts what the helpers of the tests repeated in this process.
var forgiven struct {
	// 503.
	answers atomic.Int64
	// Connections that took too long.
	dials atomic.Int64
	// That could not check the state, because a server did not answer in time.
	commands atomic.Int64
	// Started.
	servers atomic.Int64
}

// forgive503 reports whether a status is 503, and counts it, because the caller repeats the request.
func forgive503(status int) bool {
	if status != http.StatusServiceUnavailable {
		return false
	}

	forgiven.answers.Add(1)
	return true
}
