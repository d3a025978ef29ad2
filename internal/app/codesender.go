package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/out/webhook"
)

// codeTimeout bounds the delivery of a login code. A request for a code has answerTimeout of package handler in all.
const codeTimeout = 3 * time.Second

type codeSenderConfig struct {
	// Receives the codes; may be empty.
	URL string
	// The first signs the calls of URL.
	Secrets domain.Keyring
	// Whether codes are written to the log if there is no URL.
	Demo bool
	Now  func() time.Time
	Log  *slog.Logger
}

// newCodeSender returns a sender to the receiver of SECKILL_CODE_URL. Without a URL and outside demo mode every code fails, so
// that none gets into the log of a real server.
func newCodeSender(cfg codeSenderConfig) auth.CodeSender {
	switch {
	case cfg.URL != "":
		return urlSender{webhook.Client{
			URL:    cfg.URL,
			Secret: cfg.Secrets.Signer(),
			Now:    cfg.Now,
			HTTP:   webhook.NewHTTPClient(codeTimeout),
		}}
	case cfg.Demo:
		return logSender{cfg.Log}
	}

	return noSender{}
}

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
	body, err := json.Marshal(map[string]string{
		"phone":      phone,
		"code":       code,
		"expires_at": expires.UTC().Format(time.RFC3339),
	})
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
