package app

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/payment"
	"seckill/internal/version"
)

func TestCodesAreSentToURL(t *testing.T) {
	t.Parallel()
	now := time.Unix(1794398400, 0)
	status, calls := http.StatusNoContent, 0
	secret := []byte(strings.Repeat("e", 32))
	var url string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != `{"code":"123456","expires_at":"2026-11-11T12:02:00Z","phone":"13800000001"}` || r.Method != http.MethodPost ||
			r.UserAgent() != version.UserAgent() ||
			r.Header.Get(payment.SignatureHeader) != payment.Sign(secret, body, now) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Location", url+"/elsewhere")
		w.WriteHeader(status)
	}))
	defer server.Close()
	url = server.URL
	var log bytes.Buffer
	send := func(cfg Config) error {
		sender := newCodeSender(cfg, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
		return sender.SendCode(t.Context(), "13800000001", "123456", now.Add(2*time.Minute))
	}
	no := false
	cfg := Config{Demo: &no, CodeURL: url, EventsSecret: string(secret) + ",an older secret of the receiver"}
	require.NoError(t, send(cfg))
	status = http.StatusTemporaryRedirect
	require.ErrorContains(t, send(cfg), "307", "a redirect is not followed")
	require.Equal(t, 2, calls)
	status = http.StatusInternalServerError
	require.ErrorContains(t, send(cfg), "500")
	server.Close()
	cfg.CodeURL += "/?token=hidden"
	err := send(cfg)
	require.Error(t, err)
	for _, secret := range []string{"hidden", "123456", "13800000001"} {
		require.NotContains(t, err.Error(), secret)
	}
	require.ErrorIs(t, send(Config{Demo: &no}), errNoSender)
	require.Empty(t, log.String(), "outside demo mode")
	require.NoError(t, send(Config{}))
	require.Contains(t, log.String(), "phone=13800000001 code=123456")
}

// TestSlowReceiverIsAbandoned: the context of the request ends the delivery; codeTimeout does without one.
func TestSlowReceiverIsAbandoned(t *testing.T) {
	t.Parallel()
	called := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // afterwards the server notices that the client is gone
		close(called)
		<-r.Context().Done()
	}))
	defer server.Close()
	sender := newURLSender(server.URL, []byte("s"), time.Now)
	require.Equal(t, codeTimeout, sender.client.Timeout)
	go func() { <-called; cancel() }()
	require.ErrorIs(t, sender.SendCode(ctx, "13800000001", "123456", time.Now()), context.Canceled)
	sender.client.CloseIdleConnections()
}

func TestReceiverMustBeConfidential(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"https://sms.example/codes": true, "http://127.0.0.1:9": true, "http://localhost/x": true, "http://[::1]:9": true,
		"http://sms.example": false, "http://10.0.0.1": false, "ftp://127.0.0.1": false, "sms.example": false, "https://": false, "http://127.0.0.1.evil.example": false,
	} {
		require.Equal(t, ok, isReceiver(url), url)
	}
}
