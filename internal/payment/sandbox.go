package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"seckill/internal/service"
)

const (
	// sandboxDelay is how long the sandbox takes to find out whether somebody pays.
	sandboxDelay = 300 * time.Millisecond
	// postTimeout bounds one call of the webhook.
	postTimeout = 5 * time.Second
	// A notice that is not answered with 2xx is repeated, after a pause that doubles from the first to the last of these,
	// so many times in all: for some ten minutes.
	firstPause = 200 * time.Millisecond
	lastPause  = time.Minute
	maxPosts   = 18
	// maxPosting bounds the webhooks that are called at once.
	maxPosting = 16
)

// SandboxConfig is what a Sandbox needs.
type SandboxConfig struct {
	Secret []byte // signs the notices
	Now    func() time.Time
	Log    *slog.Logger
	Faults Faults
}

// Sandbox is a payment provider that says yes to every payment, a moment later, by calling the webhook as a provider
// would: signed, and again until it is answered. It moves no money and remembers nothing after a restart: a payment
// of which it has not told by then must be begun again, which is the same payment. It is safe for concurrent use.
type Sandbox struct {
	cfg     SandboxConfig
	client  *http.Client
	posting chan struct{} // an element for each call that is under way

	mu      sync.Mutex
	url     string          // of the webhook; empty until Run
	open    map[string]bool // references of which it is yet to tell
	refused map[string]int  // refunds that were refused, by reference
	stop    context.Context // ends when Run does
	work    sync.WaitGroup
}

// NewSandbox makes a sandbox, which takes payments as soon as it runs.
func NewSandbox(cfg SandboxConfig) *Sandbox {
	return &Sandbox{
		cfg: cfg, client: &http.Client{Timeout: postTimeout}, posting: make(chan struct{}, maxPosting),
		open: map[string]bool{}, refused: map[string]int{},
	}
}

// errNotRunning says that Run was not called yet, or has ended.
var errNotRunning = errors.New("the sandbox does not run")

// Run serves until ctx ends. webhook is where it tells of payments.
func (s *Sandbox) Run(ctx context.Context, webhook string) {
	s.mu.Lock()
	s.url, s.stop = webhook, ctx
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.url = ""
	s.mu.Unlock()
	s.work.Wait()
	s.client.CloseIdleConnections()
}

// Create implements service.PaymentProvider.
func (s *Sandbox) Create(_ context.Context, p service.Payment) error { //nolint:contextcheck // the payment outlives the request
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.url == "" {
		return errNotRunning
	}
	if s.open[p.Ref] {
		return nil
	}
	s.open[p.Ref] = true
	ctx, url := s.stop, s.url
	s.work.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.open, p.Ref)
			s.mu.Unlock()
		}()
		if sleep(ctx, s.cfg.Faults.delay()) {
			s.tell(ctx, url, p)
		}
	})
	return nil
}

// Refund implements service.PaymentProvider.
func (s *Sandbox) Refund(_ context.Context, p service.Payment) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused[p.Ref] < s.cfg.Faults.RefuseRefunds {
		s.refused[p.Ref]++
		return errors.New("the sandbox was told to refuse")
	}
	return nil
}

// Notice implements service.PaymentProvider.
func (s *Sandbox) Notice(signature string, body []byte) (service.PaymentNotice, error) {
	if err := verify(s.cfg.Secret, body, signature, s.cfg.Now()); err != nil {
		return service.PaymentNotice{}, err
	}
	return parse(body)
}

// tell calls the webhook until it is answered, and then as often again as the faults want it.
func (s *Sandbox) tell(ctx context.Context, url string, p service.Payment) {
	status := succeeded
	if s.cfg.Faults.Fail {
		status = failed
	}
	body, err := json.Marshal(map[string]any{
		"provider_ref": p.Ref, "order_id": strconv.FormatInt(p.OrderID, 10), "amount": p.Amount, "currency": p.Currency,
		"status": status, "timestamp": s.cfg.Now().UTC().Format(time.RFC3339),
	})
	if err != nil {
		s.cfg.Log.Error("sandbox: the notice has no form", "payment", p.Ref, "err", err)
		return
	}
	told, pause := 0, firstPause
	for post := range maxPosts {
		lost := post < s.cfg.Faults.Lose
		if !lost {
			err = s.post(ctx, url, body)
		}
		if !lost && err == nil {
			if told++; told > s.cfg.Faults.Repeat {
				return
			}
		}
		if !sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, lastPause)
	}
	if told == 0 {
		s.cfg.Log.Warn("sandbox: nobody takes the notice of a payment", "payment", p.Ref, "err", err)
	}
}

func (s *Sandbox) post(ctx context.Context, url string, body []byte) error {
	select {
	case s.posting <- struct{}{}:
		defer func() { <-s.posting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Seckill-Signature", sign(s.cfg.Secret, body, s.cfg.Now()))
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16))
	if res.StatusCode/100 != 2 {
		err = errors.Join(err, fmt.Errorf("the webhook answered %s", res.Status))
	}
	return errors.Join(err, res.Body.Close())
}

// sleep waits for d; false says that ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
