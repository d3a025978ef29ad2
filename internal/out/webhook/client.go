package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"seckill/internal/domain"
)

// maxAnswer bounds the part of an answer that is read, in bytes.
const maxAnswer = 64 << 10

// maxIdle is the number of connections to one host that stay open between calls.
const maxIdle = 32

// NewHTTPClient returns a client for Client. The timeout bounds one call, including its answer. The client follows no
// redirects, which would send the data to a host that is not configured.
func NewHTTPClient(timeout time.Duration) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = maxIdle
	return &http.Client{
		Timeout:       timeout,
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Client posts signed JSON to one URL, which is a setting of the operator. It is safe for concurrent use.
type Client struct {
	URL string
	// The first signs.
	Secrets domain.Keyring
	Now     func() time.Time
	// UserAgent names the program in its calls.
	UserAgent string
	// Made by NewHTTPClient.
	HTTP *http.Client
}

// Answer is the answer to a call.
type Answer struct {
	Status int
	// At most maxAnswer bytes.
	Body []byte
}

// Err returns an error unless the status is 2xx.
func (a Answer) Err() error {
	if a.Status/100 == 2 {
		return nil
	}
	return fmt.Errorf("answered with status %d", a.Status)
}

// Post sends body and returns the answer, whatever its status. With an error the answer has a status if only its body is
// incomplete. Errors contain neither the body nor the URL, which may have a token.
func (c Client) Post(ctx context.Context, body []byte) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return Answer{}, withoutURL(err)
	}

	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", c.UserAgent)
	req.Header.Set(SignatureHeader, Sign(c.Secrets.Signer(), body, c.Now()))

	res, err := c.HTTP.Do(req)
	if err != nil {
		return Answer{}, withoutURL(err)
	}

	answer := Answer{Status: res.StatusCode}
	answer.Body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return answer, errors.Join(err, res.Body.Close())
}

// Send is Post for a receiver whose answer tells only whether it has accepted the body.
func (c Client) Send(ctx context.Context, body []byte) error {
	answer, err := c.Post(ctx, body)
	if answer.Status == 0 {
		return err
	}
	return answer.Err()
}

func withoutURL(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}
