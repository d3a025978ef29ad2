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

var errNoSender = errors.New("there is no sender of login codes: SECKILL_CODE_URL is not set")

// newCodeSender returns a sender to the receiver of SECKILL_CODE_URL. Without a URL a demo writes the codes to the log, and
// outside demo mode every code fails, so that none gets into the log of a real server.
func newCodeSender(cfg Config, now func() time.Time, log *slog.Logger) auth.CodeSender {
	switch {
	case cfg.CodeURL != "":
		return sendTo(newReceiver(cfg.CodeURL, domain.ParseKeyring(cfg.EventsSecret), codeTimeout, now))
	case cfg.IsDemo():
		return func(_ context.Context, phone, code string, _ time.Time) error {
			log.Info("login code", "phone", phone, "code", code)
			return nil
		}
	}

	return func(context.Context, string, string, time.Time) error { return errNoSender }
}

// sendTo returns a sender whose errors contain neither the phone, the code nor the URL, which may have a token.
func sendTo(receiver webhook.Client) auth.CodeSender {
	return func(ctx context.Context, phone, code string, expires time.Time) error {
		body, err := json.Marshal(map[string]string{
			"phone":      phone,
			"code":       code,
			"expires_at": expires.UTC().Format(time.RFC3339),
		})
		if err == nil {
			err = receiver.Send(ctx, body)
		}

		if err != nil {
			return fmt.Errorf("the receiver of SECKILL_CODE_URL: %w", err)
		}

		return nil
	}
}

func newReceiver(url string, secrets domain.Keyring, timeout time.Duration, now func() time.Time) webhook.Client {
	return webhook.Client{
		URL:       url,
		Secrets:   secrets,
		Now:       now,
		UserAgent: UserAgent(),
		HTTP:      webhook.NewHTTPClient(timeout),
	}
}
