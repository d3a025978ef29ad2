package payment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/out/webhook"
)

const (
	// sandboxDelay is the time between Create and the first notice.
	sandboxDelay = 300 * time.Millisecond
	// A notice that is not answered with 2xx is repeated for noticeTime. The pauses double from firstPause to lastPause.
	noticeTime = 10 * time.Minute
	firstPause = 200 * time.Millisecond
	lastPause  = time.Minute
	// maxConcurrentPosts bounds the concurrent calls of the webhook.
	maxConcurrentPosts = 16
)

// SandboxConfig configures a Sandbox. All fields but Faults are required.
type SandboxConfig struct {
	// Calls the webhook, whose URL is that of Run.
	API    webhook.Client
	Log    *slog.Logger
	Faults Faults
}

// Sandbox is a payment provider that moves no money. It accepts every payment and reports success after sandboxDelay,
// by calling the webhook as a real provider does: with a signature, and repeatedly until it is answered with 2xx. It
// stores nothing. After a restart, a payment without a delivered notice must be created again, with the same reference.
// It is safe for concurrent use.
type Sandbox struct {
	cfg SandboxConfig
	// Semaphore with one element per call in progress.
	postSlots chan struct{}

	mu sync.Mutex
	// The url of the webhook; empty unless Run is active.
	url string
	// References whose notice is not delivered yet.
	pending map[string]bool
	// Number of refused refunds, by reference.
	refused map[string]int
	// Ends when Run does.
	stop context.Context
	work sync.WaitGroup
}

// NewSandbox returns a sandbox, which accepts payments while Run is active.
func NewSandbox(cfg SandboxConfig) *Sandbox {
	return &Sandbox{
		cfg:       cfg,
		postSlots: make(chan struct{}, maxConcurrentPosts),
		pending:   map[string]bool{},
		refused:   map[string]int{},
	}
}

// errNotRunning is returned before Run is called and after it has ended.
var errNotRunning = errors.New("the sandbox is not running")

// Run accepts payments until ctx ends, and sends their notices to the URL webhook. It returns when all calls of the
// webhook have ended.
func (s *Sandbox) Run(ctx context.Context, webhook string) {
	s.mu.Lock()
	s.url = webhook
	s.stop = ctx
	s.mu.Unlock()

	<-ctx.Done()

	s.mu.Lock()
	s.url = ""
	s.mu.Unlock()

	s.work.Wait()
	s.cfg.API.HTTP.CloseIdleConnections()
}

// Create implements domain.PaymentProvider.
func (s *Sandbox) Create(_ context.Context, payment *domain.Payment) error { //nolint:contextcheck // the payment outlives the request
	p := *payment
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.url == "" {
		return errNotRunning
	}
	if s.pending[p.Ref] {
		return nil
	}

	s.pending[p.Ref] = true
	ctx := s.stop
	url := s.url
	s.work.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.pending, p.Ref)
			s.mu.Unlock()
		}()

		if loop.Sleep(ctx, cmp.Or(s.cfg.Faults.Delay, sandboxDelay)) == nil {
			s.deliver(ctx, url, p)
		}
	})

	return nil
}

// Refund implements domain.PaymentProvider.
func (s *Sandbox) Refund(_ context.Context, p domain.Payment) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused[p.Ref] < s.cfg.Faults.RefuseRefunds {
		s.refused[p.Ref]++
		return errors.New("the sandbox is configured to refuse this refund")
	}
	return nil
}

// Notice implements domain.PaymentProvider.
func (s *Sandbox) Notice(signature string, body []byte) (domain.PaymentNotice, error) {
	return readNotice(s.cfg.API, signature, body)
}

// deliver calls the webhook until it is answered with 2xx, and then Faults.Repeat times more, for no longer than
// noticeTime.
func (s *Sandbox) deliver(ctx context.Context, url string, p domain.Payment) {
	status := domain.PaymentSucceeded
	if s.cfg.Faults.Fail {
		status = domain.PaymentFailed
	}

	body, err := json.Marshal(map[string]any{
		"provider_ref": p.Ref,
		"order_id":     strconv.FormatInt(p.OrderID, 10),
		"amount":       p.Amount,
		"currency":     p.Currency,
		"status":       status.String(),
		"timestamp":    s.cfg.API.Now().UTC().Format(time.RFC3339),
	})
	if err != nil {
		s.cfg.Log.Error("sandbox: encode the notice of a payment", "provider_ref", p.Ref, "err", err)
		return
	}

	due, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()

	delivered := 0
	for post := 0; due.Err() == nil; post++ {
		lost := post < s.cfg.Faults.Lose
		if !lost {
			err = s.post(ctx, url, body)
		}

		if !lost && err == nil {
			delivered++
			if delivered > s.cfg.Faults.Repeat {
				return
			}
		}

		_ = loop.Sleep(due, loop.Backoff(firstPause, lastPause, post))
	}

	if delivered == 0 && ctx.Err() == nil {
		s.cfg.Log.Warn("sandbox: the notice of a payment was not delivered", "provider_ref", p.Ref, "err", err)
	}
}

func (s *Sandbox) post(ctx context.Context, url string, body []byte) error {
	select {
	case s.postSlots <- struct{}{}:
		defer func() { <-s.postSlots }()
	case <-ctx.Done():
		return ctx.Err()
	}

	hook := s.cfg.API
	hook.URL = url
	return hook.Send(ctx, body)
}
