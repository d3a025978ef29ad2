package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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
)

// codeReceiver is the service behind SECKILL_CODE_URL. It verifies the signature of each code.
type codeReceiver struct {
	url string

	mu    sync.Mutex
	codes map[string]string // the last code by phone
	apps  map[string]string // the keys of authenticator apps by phone
	all   []string
}

const eventsSecret = "9d216fe07b58c3a2b4c1d09f3a6e57822c9e10fd"

func startCodeReceiver(t *testing.T) *codeReceiver {
	t.Helper()
	r := &codeReceiver{codes: map[string]string{}, apps: map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		assert.NoError(t, err)
		stamp, signature, _ := strings.Cut(strings.TrimPrefix(req.Header.Get("X-Seckill-Signature"), "t="), ",v1=")
		mac := hmac.New(sha256.New, []byte(eventsSecret))
		mac.Write([]byte(stamp + "." + string(body)))
		assert.Equal(t, hex.EncodeToString(mac.Sum(nil)), signature)
		var in struct {
			Phone, Code string
			ExpiresAt   time.Time `json:"expires_at"`
		}
		assert.NoError(t, json.Unmarshal(body, &in))
		assert.Greater(t, time.Until(in.ExpiresAt), 30*time.Second)
		if req.Context().Err() != nil { // the server has given up, and may have sent another code
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.codes[in.Phone] = in.Code
		r.all = append(r.all, in.Code)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// codesTo returns the stack as a server outside demo mode that sends its codes to r.
func (s *stack) codesTo(r *codeReceiver) *stack {
	return s.with("SECKILL_DEMO=false", "SECKILL_CODE_URL="+r.url, "SECKILL_EVENTS_SECRET="+eventsSecret)
}

// code returns the last code of a phone, or "".
func (r *codeReceiver) code(phone string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.codes[phone]
}

// sent returns all codes.
func (r *codeReceiver) sent() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.all...)
}

// enroll gives an admin a second factor, with which login logs in once.
func (r *codeReceiver) enroll(t *testing.T, s *stack, phone string) {
	t.Helper()
	r.apps[phone] = s.enroll(t, phone)
}

// request has a code sent to a phone and returns the answer. A slow receiver may get more than one code.
func (r *codeReceiver) request(t *testing.T, p *server, phone string) answer {
	t.Helper()
	a := p.reply(t, http.MethodPost, "/auth/code", "", map[string]string{"phone": phone})
	require.Less(t, a.status, 300, a.body)
	return a
}

// login logs a phone in at a server outside demo mode and returns the body of the answer.
func (r *codeReceiver) login(t *testing.T, p *server, phone string) map[string]any {
	t.Helper()
	a := r.request(t, p, phone)
	require.Empty(t, a.header.Get("X-Demo-Code"))
	in := map[string]any{"phone": phone, "code": r.code(phone)}
	if id, ok := a.body["login_id"]; ok {
		in["login_id"] = id
	}
	if key := r.apps[phone]; key != "" {
		var err error
		in["totp"], err = totp.GenerateCode(key, time.Now())
		require.NoError(t, err)
	}
	return p.must(t, http.MethodPost, "/auth/login", "", in)
}
