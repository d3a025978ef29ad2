package rig

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/out/webhook"
)

// CodeReceiver is the service behind SECKILL_CODE_URL. It verifies the signature of each code.
type CodeReceiver struct {
	URL string

	mu sync.Mutex
	// The last code by phone.
	codes map[string]string
}

const EventsSecret = "9d216fe07b58c3a2b4c1d09f3a6e57822c9e10fd"

func readSigned(t *testing.T, req *http.Request, message any) {
	body, err := io.ReadAll(req.Body)
	assert.NoError(t, err)
	assert.NoError(t, webhook.Verify(domain.ParseKeyring(EventsSecret), body, req.Header.Get(webhook.SignatureHeader), time.Now()))
	assert.NoError(t, json.Unmarshal(body, message))
}

// StartCodeReceiver starts a receiver of login codes.
func StartCodeReceiver(t *testing.T) *CodeReceiver {
	t.Helper()
	r := &CodeReceiver{codes: map[string]string{}}

	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		r.receive(t, req)
	}))
	t.Cleanup(server.Close)

	r.URL = server.URL
	return r
}

func (r *CodeReceiver) receive(t *testing.T, req *http.Request) {
	var in struct {
		Phone, Code string
		ExpiresAt   time.Time `json:"expires_at"`
	}
	readSigned(t, req, &in)
	assert.Greater(t, time.Until(in.ExpiresAt), 30*time.Second)

	// The server has given up, and may have sent another code.
	if req.Context().Err() != nil {
		return
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.codes[in.Phone] = in.Code
}

// CodesTo returns the stack as a server outside demo mode that sends its codes to r.
func (s *Stack) CodesTo(r *CodeReceiver) *Stack {
	return s.With("SECKILL_DEMO=false", "SECKILL_CODE_URL="+r.URL, "SECKILL_EVENTS_SECRET="+EventsSecret)
}

// Code returns the last code of a phone, or "".
func (r *CodeReceiver) Code(phone string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.codes[phone]
}

// LoginWith logs a phone in at a server outside demo mode, with a code and the key that "admin enroll" printed, and returns
// the body of the answer.
func (r *CodeReceiver) LoginWith(t *testing.T, p *Server, phone, printed string) map[string]any {
	t.Helper()
	key := totpKey.FindStringSubmatch(printed)
	require.NotNil(t, key, printed)
	factor, err := totp.GenerateCode(key[1], time.Now())
	require.NoError(t, err)

	sent := p.Must(t, Post("/auth/code", "", map[string]string{"phone": phone}))
	return p.Must(t, Post("/auth/login", "", map[string]any{
		"phone":    phone,
		"login_id": sent["login_id"],
		"code":     r.Code(phone),
		"totp":     factor,
	}))
}

// eventReceiver is the merchant's system behind SECKILL_EVENTS_URL.
type eventReceiver struct {
	URL string

	Mu     sync.Mutex
	Refuse bool
	// Of the answered events, by order.
	types map[string][]string
}

// StartEventReceiver starts a receiver of the events of orders.
func StartEventReceiver(t *testing.T) *eventReceiver {
	t.Helper()
	r := &eventReceiver{types: map[string][]string{}}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.receive(t, w, req)
	}))
	t.Cleanup(server.Close)

	r.URL = server.URL
	return r
}

func (r *eventReceiver) receive(t *testing.T, w http.ResponseWriter, req *http.Request) {
	var event struct {
		Type string
		Data struct{ ID string }
	}

	readSigned(t, req, &event)

	r.Mu.Lock()
	defer r.Mu.Unlock()

	if r.Refuse {
		http.Error(w, "closed for stocktaking", http.StatusServiceUnavailable)
		return
	}

	r.types[event.Data.ID] = append(r.types[event.Data.ID], strings.TrimPrefix(event.Type, "order."))
	w.WriteHeader(http.StatusNoContent)
}

// Of returns the types of the answered events of an order.
func (r *eventReceiver) Of(order string) []string {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return append([]string{}, r.types[order]...)
}
