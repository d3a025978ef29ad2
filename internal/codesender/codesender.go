// Package codesender sends login codes to the receiver of SECKILL_CODE_URL.
package codesender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/internal/auth"
	"seckill/internal/webhook"
)

// timeout bounds the delivery of a login code. A request for a code has answerTimeout of package handler in all.
const timeout = 3 * time.Second

// New returns a sender that posts login codes to a URL, signed like the notices of payment providers.
func New(url string, secret []byte, now func() time.Time) auth.CodeSender {
	return urlSender{webhook.Client{URL: url, Secret: secret, Now: now, HTTP: webhook.NewHTTPClient(timeout)}}
}

// ToLog returns a sender that writes login codes to the log, for demo mode.
func ToLog(log *slog.Logger) auth.CodeSender { return logSender{log} }

// None returns a sender that refuses every code, so that no code gets into the log of a real server.
func None() auth.CodeSender { return noSender{} }

type logSender struct{ log *slog.Logger }

// SendCode implements auth.CodeSender.
func (s logSender) SendCode(_ context.Context, phone, code string, _ time.Time) error {
	s.log.Info("login code", "phone", phone, "code", code)
	return nil
}

type noSender struct{}

var errNoSender = errors.New("there is no sender of login codes: SECKILL_CODE_URL is not set")

// SendCode implements auth.CodeSender.
func (noSender) SendCode(context.Context, string, string, time.Time) error { return errNoSender }

type urlSender struct{ receiver webhook.Client }

// SendCode implements auth.CodeSender. Its errors contain neither the phone, the code nor the URL, which may have a token.
func (s urlSender) SendCode(ctx context.Context, phone, code string, expires time.Time) error {
	body, err := json.Marshal(map[string]string{"phone": phone, "code": code, "expires_at": expires.UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	answer, err := s.receiver.Post(ctx, body)
	if err == nil {
		err = answer.Err()
	}
	if err != nil {
		return fmt.Errorf("the receiver of SECKILL_CODE_URL: %w", err)
	}
	return nil
}
