package webhook

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/kit/version"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t *testing.T, receive http.HandlerFunc) Client {
	t.Helper()
	server := httptest.NewServer(receive)
	t.Cleanup(server.Close)
	c := Client{URL: server.URL + "/hook?token=hidden", Secret: secret, Now: func() time.Time { return at }, HTTP: NewHTTPClient(time.Minute)}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

func TestPostIsSigned(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.UserAgent() != version.UserAgent() ||
			Verify(secrets, text, r.Header.Get(SignatureHeader), at) != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, "taken")
	})
	answer, err := c.Post(t.Context(), body)
	require.NoError(t, err)
	require.Equal(t, Answer{http.StatusOK, []byte("taken")}, answer)
	require.NoError(t, answer.Err())
	c.Secret = []byte("another secret")
	answer, err = c.Post(t.Context(), body)
	require.NoError(t, err)
	require.ErrorContains(t, answer.Err(), "401")
}

// A redirect is an answer like any other, and a long answer is cut off.
func TestPostFollowsNoRedirect(t *testing.T) {
	calls := 0
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		w.Header().Set("Location", "http://"+r.Host+"/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
		_, _ = io.WriteString(w, strings.Repeat("x", 2*maxAnswer))
	})
	answer, err := c.Post(t.Context(), body)
	require.NoError(t, err)
	require.ErrorContains(t, answer.Err(), "307")
	require.Len(t, answer.Body, maxAnswer)
	require.Equal(t, 1, calls)
}

// The context of the caller ends a call, and so does the timeout of the client. The errors do not contain the URL.
func TestSlowReceiverIsAbandoned(t *testing.T) {
	called := make(chan struct{}, 2)
	c := newClient(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // afterwards the server notices that the client is gone
		called <- struct{}{}
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-called; cancel() }()
	_, err := c.Post(ctx, body)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "hidden")
	c.HTTP.Timeout = time.Millisecond
	_, err = c.Post(t.Context(), body)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotContains(t, err.Error(), "hidden")
	c.URL = "http://receiver.example:port/?token=hidden"
	_, err = c.Post(t.Context(), body)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hidden")
}
