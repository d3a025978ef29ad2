package rig

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
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
	// The last code by phone.
	codes sync.Map
}

const EventsSecret = "9d216fe07b58c3a2b4c1d09f3a6e57822c9e10fd"

func readSigned(t *testing.T, req *http.Request, message any) {
	body, err := io.ReadAll(req.Body)
	assert.NoError(t, err)
	assert.NoError(t, webhook.Verify(domain.ParseKeyring(EventsSecret), body, req.Header.Get(webhook.SignatureHeader), time.Now()))
	assert.NoError(t, json.Unmarshal(body, message))
}

// receiver starts a server of the test and returns its URL.
func receiver(t *testing.T, receive http.HandlerFunc) string {
	server := httptest.NewServer(receive)
	t.Cleanup(server.Close)
	return server.URL
}

// StartCodeReceiver starts a receiver of login codes.
func StartCodeReceiver(t *testing.T) *CodeReceiver {
	t.Helper()
	r := &CodeReceiver{}

	r.URL = receiver(t, func(_ http.ResponseWriter, req *http.Request) {
		var in struct {
			Phone, Code string
			ExpiresAt   time.Time `json:"expires_at"`
		}
		readSigned(t, req, &in)
		assert.Greater(t, time.Until(in.ExpiresAt), 30*time.Second)

		// Otherwise the server has given up, and may have sent another code.
		if req.Context().Err() == nil {
			r.codes.Store(in.Phone, in.Code)
		}
	})

	return r
}

// CodesTo returns the stack as a server outside demo mode that sends its codes to r.
func (s *Stack) CodesTo(r *CodeReceiver) *Stack {
	return s.With("SECKILL_DEMO=false", "SECKILL_CODE_URL="+r.URL, "SECKILL_EVENTS_SECRET="+EventsSecret)
}

// Code returns the last code of a phone, or "".
func (r *CodeReceiver) Code(phone string) string {
	code, _ := r.codes.Load(phone)
	text, _ := code.(string)
	return text
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

// EventReceiver is the merchant's system behind SECKILL_EVENTS_URL. It verifies the signature of each event, and refuses all
// until it is open.
type EventReceiver struct {
	URL  string
	Open atomic.Bool
	// Whose events it has accepted.
	Orders sync.Map
}

// StartEventReceiver starts a receiver of the events of orders.
func StartEventReceiver(t *testing.T) *EventReceiver {
	t.Helper()
	r := &EventReceiver{}

	r.URL = receiver(t, func(w http.ResponseWriter, req *http.Request) {
		var event struct {
			Data struct{ ID string }
		}
		readSigned(t, req, &event)

		if !r.Open.Load() {
			http.Error(w, "closed for stocktaking", http.StatusServiceUnavailable)
			return
		}

		r.Orders.Store(event.Data.ID, true)
	})

	return r
}
