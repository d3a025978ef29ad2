package app

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/webhook"
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
			r.Header.Get(webhook.SignatureHeader) != webhook.Sign(secret, body, now) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Location", url+"/elsewhere")
		w.WriteHeader(status)
	}))
	defer server.Close()
	url = server.URL
	send := func() error {
		cfg := codeSenderConfig{URL: url, Secrets: domain.NewKeyring(secret, []byte("an older secret")), Now: func() time.Time { return now }}
		return newCodeSender(cfg).SendCode(t.Context(), "13800000001", "123456", now.Add(2*time.Minute))
	}
	require.NoError(t, send())
	status = http.StatusTemporaryRedirect
	require.ErrorContains(t, send(), "307", "a redirect is not followed")
	require.Equal(t, 2, calls)
	status = http.StatusInternalServerError
	require.ErrorContains(t, send(), "500")
	server.Close()
	url += "/?token=hidden"
	err := send()
	require.Error(t, err)
	for _, secret := range []string{"hidden", "123456", "13800000001"} {
		require.NotContains(t, err.Error(), secret)
	}
}

func TestCodesWithoutReceiver(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	require.ErrorIs(t, newCodeSender(codeSenderConfig{}).SendCode(t.Context(), "13800000001", "123456", time.Now()), errNoSender)
	require.NoError(t, newCodeSender(codeSenderConfig{Demo: true, Log: slog.New(slog.NewTextHandler(&log, nil))}).SendCode(t.Context(), "13800000001", "123456", time.Now()))
	require.Contains(t, log.String(), "phone=13800000001 code=123456")
}
