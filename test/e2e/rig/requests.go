package rig

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

// Request is a request to a server. Its path begins with /api/v1 if Get, Post or Patch made it.
type Request struct {
	Method string
	Path   string
	Token  string

	// The Idempotency-Key; requests with one key are the same request.
	Key string
	// A string is sent as it is, anything else as JSON.
	Body any

	// Further names and values in turn.
	header []string
	// Of a connection, for buyers with many requests.
	Reuse bool
}

// Get returns a request to the API.
func Get(path, token string) Request {
	return Request{Method: http.MethodGet, Path: "/api/v1" + path, Token: token}
}

// Post returns a request to the API. The body may be nil.
func Post(path, token string, body any) Request {
	return Request{Method: http.MethodPost, Path: "/api/v1" + path, Token: token, Body: body}
}

// Patch returns a request to the API.
func Patch(path, token string, body any) Request {
	return Request{Method: http.MethodPatch, Path: "/api/v1" + path, Token: token, Body: body}
}

// Purchase places an order.
func Purchase(sale, token string) Request { return Post("/vouchers/"+sale+"/orders", token, nil) }

// Pay begins the payment of an order.
func Pay(order, token string) Request { return Post("/orders/"+order+"/pay", token, nil) }

// Keyed returns the request with an Idempotency-Key.
func (r Request) Keyed(key string) Request {
	r.Key = key
	return r
}

// Pass returns the request with a pass for the sale.
func (r Request) Pass(pass string) Request { return r.With("X-Entry-Pass", pass) }

// With returns the request with another header.
func (r Request) With(name, value string) Request {
	r.header = append(slices.Clip(r.header), name, value)
	return r
}

// Answer is the answer to a request.
type Answer struct {
	Status int
	Header http.Header
	Text   string
	// Of a JSON object.
	Body map[string]any
}

// Success reports whether the status is 2xx.
func (a Answer) Success() bool { return a.Status >= 200 && a.Status < 300 }

// Field returns a text in the body, or "".
func (a Answer) Field(name string) string {
	text, _ := a.Body[name].(string)
	return text
}

// Order returns the id of the order in the answer, or "".
func (a Answer) Order() string {
	if id := a.Field("order_id"); id != "" {
		return id
	}
	return a.Field("id")
}

// Replayed reports whether the answer is the stored one of an earlier request with the key.
func (a Answer) Replayed() bool { return a.Header.Get("Idempotency-Replayed") == "true" }

// Busy reports whether the same request has to be sent again: it is answered 503, as a server on a busy machine may do, or
// another one with its key is not over.
func (a Answer) Busy() bool { return forgive503(a.Status) || a.Field("code") == "order_in_progress" }

var (
	freshClient  = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	reuseClient  = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: time.Second}}
	streamClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
)

func (r Request) open(ctx context.Context, client *http.Client, base string) (*http.Response, error) {
	text, isText := r.Body.(string)
	if !isText && r.Body != nil {
		encoded, err := json.Marshal(r.Body)
		if err != nil {
			return nil, err
		}
		text = string(encoded)
	}

	req, err := http.NewRequestWithContext(ctx, r.Method, base+r.Path, strings.NewReader(text))
	if err != nil {
		return nil, err
	}

	if r.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.Token)
	}
	if r.Key != "" {
		req.Header.Set("Idempotency-Key", r.Key)
	}
	for pair := range slices.Chunk(r.header, 2) {
		req.Header.Set(pair[0], pair[1])
	}

	return client.Do(req)
}

// Send sends a request once to the server at base. By default, it does so over a new connection.
func Send(ctx context.Context, base string, r Request) (Answer, error) {
	if r.Reuse {
		return SendBy(ctx, reuseClient, base, r)
	}
	return SendBy(ctx, freshClient, base, r)
}

// SendBy is Send by another client.
func SendBy(ctx context.Context, client *http.Client, base string, r Request) (Answer, error) {
	res, err := r.open(ctx, client, base)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()

	text, err := io.ReadAll(res.Body)
	if err != nil {
		return Answer{}, err
	}

	a := Answer{
		Status: res.StatusCode,
		Header: res.Header,
		Text:   string(text),
	}

	// Fails if there is no JSON object.
	_ = json.Unmarshal(text, &a.Body)
	return a, nil
}

// Send sends a request once.
func (p *Server) Send(ctx context.Context, r Request) (Answer, error) { return Send(ctx, p.URL, r) }

// Try sends a request, and again for up to a minute while the answer is busy. It gives a POST a key, because a request that
// is answered 503 may have had its effect.
func (p *Server) Try(ctx context.Context, r Request) (Answer, error) {
	if r.Method == http.MethodPost && r.Key == "" {
		r.Key = rand.Text()
	}

	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	for {
		a, err := p.Send(ctx, r)
		if err != nil || !a.Busy() || Sleep(ctx, 20*time.Millisecond) != nil {
			return a, err
		}
	}
}

// Once sends a request once, which must be answered.
func (p *Server) Once(t *testing.T, r Request) Answer {
	t.Helper()
	return env.Must(p.Send(context.WithoutCancel(t.Context()), r))(t)
}

// Do is Try for a request that must be answered.
func (p *Server) Do(t *testing.T, r Request) Answer {
	t.Helper()
	a, err := p.Try(t.Context(), r)
	require.NoError(t, err, "%s %s", r.Method, r.Path)
	return a
}

// Must is Do for a request that must succeed. It returns the body of the answer.
func (p *Server) Must(t *testing.T, r Request) map[string]any {
	t.Helper()
	a := p.Do(t, r)
	require.True(t, a.Success(), "%s %s: %d %s", r.Method, r.Path, a.Status, a.Text)
	return a.Body
}

// Items is Must for a list.
func (p *Server) Items(t *testing.T, r Request) []map[string]any {
	t.Helper()

	var items []map[string]any
	for _, item := range p.Must(t, r)["items"].([]any) {
		items = append(items, item.(map[string]any))
	}

	return items
}

// Fetch requests a URL once.
func Fetch(t *testing.T, url string) Answer {
	t.Helper()
	return env.Must(Send(t.Context(), url, Request{Method: http.MethodGet}))(t)
}

// Stream is an open event stream.
type Stream struct {
	events *env.EventStream
	status string
	close  func() error
}

// Open opens an event stream, as Try does.
func (p *Server) Open(ctx context.Context, r Request) (*Stream, error) {
	for start := time.Now(); ; _ = Sleep(ctx, 20*time.Millisecond) {
		res, err := r.open(ctx, streamClient, p.URL)
		if err != nil {
			return nil, err
		}

		if !forgive503(res.StatusCode) || time.Since(start) > time.Minute {
			return &Stream{
				events: env.NewEventStream(res.Body),
				status: res.Status,
				close:  res.Body.Close,
			}, nil
		}

		_ = res.Body.Close()
	}
}

// Close closes the stream.
func (s *Stream) Close() { _ = s.close() }

// Next decodes the data of the next event into data and returns the name of the event, or why the stream has ended.
func (s *Stream) Next(data any) (string, error) {
	event, err := s.events.Next()
	if err != nil {
		return "", fmt.Errorf("the stream ended: %s %w", s.status, err)
	}

	return event.Kind, json.Unmarshal(event.Data, data)
}
