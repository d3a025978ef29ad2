package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/payment"
	"seckill/internal/version"
)

// codeTimeout bounds the delivery of a login code. A request for a code has answerTimeout of package handler in all.
const codeTimeout = 3 * time.Second

// newCodeSender returns the sender of login codes: the receiver of SECKILL_CODE_URL, or the log in demo mode. Without
// either, every code fails, so that no code gets into the log of a real server.
func newCodeSender(cfg Config, log *slog.Logger, now func() time.Time) auth.CodeSender {
	switch {
	case cfg.CodeURL != "":
		return newURLSender(cfg.CodeURL, domain.ParseKeyring(cfg.EventsSecret).Signer(), now)
	case cfg.IsDemo():
		return logSender{log}
	}
	return noSender{}
}

// logSender writes login codes to the log.
type logSender struct{ log *slog.Logger }

// SendCode implements auth.CodeSender.
func (s logSender) SendCode(_ context.Context, phone, code string, _ time.Time) error {
	s.log.Info("login code", "phone", phone, "code", code)
	return nil
}

// noSender refuses every code.
type noSender struct{}

var errNoSender = errors.New("there is no sender of login codes: SECKILL_CODE_URL is not set")

// SendCode implements auth.CodeSender.
func (noSender) SendCode(context.Context, string, string, time.Time) error { return errNoSender }

// urlSender posts login codes to a URL, signed like the notices of payment providers. It is safe for concurrent use.
type urlSender struct {
	url    string
	secret []byte
	now    func() time.Time
	client *http.Client
}

func newURLSender(receiver string, secret []byte, now func() time.Time) *urlSender {
	return &urlSender{url: receiver, secret: secret, now: now, client: &http.Client{
		Timeout: codeTimeout,
		// A redirect would send the code to a host that is not configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// SendCode implements auth.CodeSender. Its errors contain neither the phone, the code nor the URL, which may have a token.
func (s *urlSender) SendCode(ctx context.Context, phone, code string, expires time.Time) error {
	body, err := json.Marshal(map[string]string{"phone": phone, "code": code, "expires_at": expires.UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", version.UserAgent())
	req.Header.Set(payment.SignatureHeader, payment.Sign(s.secret, body, s.now()))
	res, err := s.client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return fmt.Errorf("the receiver of SECKILL_CODE_URL: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16)) // lets the connection be used again
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver of SECKILL_CODE_URL answered %s", res.Status)
	}
	return nil
}
