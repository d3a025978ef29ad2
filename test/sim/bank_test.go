package sim

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"seckill/internal/domain"
)

// bank is the payment provider. It records which money was received and returned. Two provider names share its
// accounts.
type bank struct {
	mu       sync.Mutex
	accounts []*account // in creation order
	notices  []*notice  // sent and unsent
	w        *world

	createFault  string // for every payment that is begun
	refundFaults map[string]string
	refunds      []refundCall // of the current step
}

// account is a payment as the bank records it.
type account struct {
	provider, ref string
	order, amount int64
	taken         bool // the money was received
	returned      bool // the money was returned
	reversed      bool // without a request of the product
}

// notice is a call of the webhook. It may be delivered any number of times.
type notice struct {
	domain.PaymentNotice
	provider  string
	delivered atomic.Bool // a delivery was acknowledged
}

// refundCall is one refund request and its result.
type refundCall struct {
	ref       string
	confirmed bool // the caller received a confirmation
}

// Faults of calls to the bank.
const (
	bankRefuses    = "refuses"
	bankLosesReply = "reply lost"
)

// errBank is the error that callers receive from a failing bank.
var errBank = errors.New("bank_unavailable")

func (b *bank) find(ref string) *account {
	i := slices.IndexFunc(b.accounts, func(a *account) bool { return a.ref == ref })
	if i < 0 {
		return nil
	}
	return b.accounts[i]
}

// branch is the bank under one of its provider names. It implements domain.PaymentProvider.
type branch struct {
	*bank
	name string
}

func (b branch) Create(_ context.Context, p *domain.Payment) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w.crashed.Load() || b.createFault == bankRefuses {
		return errBank
	}
	if b.find(p.Ref) == nil {
		b.accounts = append(b.accounts, &account{provider: b.name, ref: p.Ref, order: p.OrderID, amount: p.Amount})
	}
	if b.createFault == bankLosesReply {
		return errBank
	}
	return nil
}

func (b branch) Refund(_ context.Context, p domain.Payment) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w.crashed.Load() {
		return errBank
	}
	fault := b.refundFaults[p.Ref]
	b.refunds = append(b.refunds, refundCall{p.Ref, fault == ""})
	if fault == bankRefuses {
		return errBank
	}
	a := b.find(p.Ref)
	if a == nil || a.provider != b.name || !a.taken {
		return errors.New("the bank received no such payment")
	}
	a.returned = true // idempotent
	if fault == bankLosesReply {
		return errBank
	}
	return nil
}

// Notice accepts "signed" as a valid signature.
func (branch) Notice(signature string, body []byte) (domain.PaymentNotice, error) {
	if signature != "signed" {
		return domain.PaymentNotice{}, domain.ErrUnauthenticated
	}
	var m noticeMessage
	err := json.Unmarshal(body, &m)
	m.PaymentNotice.Result = domain.PaymentStatus(m.Result)
	return m.PaymentNotice, err
}

// noticeMessage is the form in which the bank sends a notice.
type noticeMessage struct {
	domain.PaymentNotice
	Result int8
}
