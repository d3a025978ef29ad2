package rig

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"seckill/internal/app"
	"seckill/test/env"
)

// demoLine matches the lines of a demo's log that have login codes and the number of its admin, which is public.
var demoLine = regexp.MustCompile(`(?m)^.*(?:msg="login code"|` + app.DemoAdmin + `).*$`)

// Leaks returns the secrets in the log of a server and in the metrics that were scraped from it. The search runs at the
// end of every server of these tests, and so after every kind of request.
func (s *Stack) Leaks(p *Server) []string {
	// A constant in a warning.
	log := strings.ReplaceAll(p.Log.String(), app.DemoAdmin+" is the admin of demo mode", "")
	demo := s.Setting("SECKILL_DEMO")
	if demo == "true" || demo == "" && s.Setting("SECKILL_MYSQL_DSN") == "" {
		log = demoLine.ReplaceAllString(log, "")
	}

	var known []string
	for _, name := range []string{"SECKILL_JWT_SECRET", "SECKILL_PAYMENT_SECRET", "SECKILL_EVENTS_SECRET", "SECKILL_REDIS_PASSWORD"} {
		for secret := range strings.SplitSeq(s.Setting(name), ",") {
			if secret != "" {
				known = append(known, secret)
			}
		}
	}

	return append(env.Leaks(log, known...), env.Leaks(p.Metrics, known...)...)
}

var opsAddr = regexp.MustCompile(`msg="metrics and profiles" addr=(\S+)`)

// OpsURL returns the URL of the port for operators, or "".
func (p *Server) OpsURL() string {
	addr := opsAddr.FindStringSubmatch(p.Log.String())
	if addr == nil {
		return ""
	}

	return "http://" + addr[1]
}

// Scrape stores the metrics of a server before it ends. Those of a server that the test has killed or paused, or that
// has no ops address, are not available.
func (p *Server) Scrape(t *testing.T) {
	t.Helper()
	url := p.OpsURL()
	if url == "" {
		return
	}

	// As Prometheus does.
	const accept = "application/openmetrics-text; version=1.0.0, text/plain; q=0.5"
	a, err := Send(context.WithoutCancel(t.Context()), url, Request{Method: http.MethodGet, Path: "/metrics"}.With("Accept", accept))
	if err != nil {
		t.Log("no metrics:", err)
		return
	}

	p.Metrics = a.Text
}
