package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"seckill/internal/service"
)

// bank is a payment provider: it knows what money has come and what has gone back. Two of them share the accounts, under
// their own names.
type bank struct {
	mu       sync.Mutex
	accounts []*account // in the order in which they were opened
	notices  []*notice  // what it has to say, or has said
	w        *world

	createFate string // of every payment that is begun
	refundFate map[string]string
	refunds    []refundCall // since the step began
}

// account is a payment as the bank knows it.
type account struct {
	provider, ref string
	order, amount int64
	taken         bool // the money has come
	returned      bool // it has gone back
}

// notice is a call of the webhook. It may be made any number of times.
type notice struct {
	service.PaymentNotice
	provider string
	heard    atomic.Bool // it was answered
}

// refundCall is what the bank was asked and what it answered.
type refundCall struct {
	ref string
	yes bool // the answer arrived, and it was yes
}

// What becomes of a question to the bank.
const (
	refuses    = "refuses"
	losesReply = "does it, and its answer is lost"
)

// errBank is all that a caller sees of it.
var errBank = errors.New("the bank is silent")

func (b *bank) find(ref string) *account {
	i := slices.IndexFunc(b.accounts, func(a *account) bool { return a.ref == ref })
	if i < 0 {
		return nil
	}
	return b.accounts[i]
}

// branch is the bank under one of its names. It implements service.PaymentProvider.
type branch struct {
	*bank
	name string
}

func (b branch) Create(_ context.Context, p service.Payment) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w.dead.Load() || b.createFate == refuses {
		return errBank
	}
	if b.find(p.Ref) == nil {
		b.accounts = append(b.accounts, &account{provider: b.name, ref: p.Ref, order: p.OrderID, amount: p.Amount})
	}
	if b.createFate == losesReply {
		return errBank
	}
	return nil
}

func (b branch) Refund(_ context.Context, p service.Payment) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w.dead.Load() {
		return errBank
	}
	fate := b.refundFate[p.Ref]
	b.refunds = append(b.refunds, refundCall{p.Ref, fate == ""})
	if fate == refuses {
		return errBank
	}
	a := b.find(p.Ref)
	if a == nil || a.provider != b.name || !a.taken {
		return errors.New("the bank has no such money")
	}
	a.returned = true // however often it is asked
	if fate == losesReply {
		return errBank
	}
	return nil
}

// Notice takes the word "signed" for a signature.
func (branch) Notice(signature string, body []byte) (service.PaymentNotice, error) {
	if signature != "signed" {
		return service.PaymentNotice{}, service.ErrUnauthenticated
	}
	var n service.PaymentNotice
	err := json.Unmarshal(body, &n)
	return n, err
}
