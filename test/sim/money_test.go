package sim

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/internal/repo"
)

func (l *life) pay(t *rapid.T, at *server, of target) action {
	l.bank.createFault = evenly(t, "bank", "", "", "", "", "", "", bankRefuses, bankLosesReply)
	return l.payAt(t, at, of)
}

func (l *life) payAt(t *rapid.T, at *server, of target) action {
	name, absent := evenly(t, "provider", "sandbox", "other"), l.absentCode(of)
	silent := l.bank.createFault != ""
	return action{name: "pay", at: at, do: func() string {
		_, p, err := at.payments.Pay(l.ctx, nil, of.user, of.id, name)
		if err != nil {
			return errorCode(err)
		}
		return "ok " + p.Ref
	}, effect: func(m model, now *snapshot) string {
		if !m.owned(of.user, of.id) {
			return absent
		}
		ref, code := m.pay(of.id, name, now)
		switch {
		case code != "ok":
			return code
		case silent:
			return "unavailable"
		}
		return "ok " + ref
	}}
}

func (l *life) refund(_ *rapid.T, at *server, of target) action {
	absent := l.absentCode(of)
	return action{name: "refund", at: at, do: func() string {
		return codeOf(at.payments.Refund(l.ctx, nil, buyer(of.user), of.id))
	}, effect: func(m model, _ *snapshot) string {
		if !m.owned(of.user, of.id) {
			return absent
		}
		return m.refund(of.user, of.id)
	}}
}

func (l *life) notify(at *server, provider, signature string, n domain.PaymentNotice, delivered func()) action {
	return action{name: "webhook", at: at, do: func() string {
		body, err := json.Marshal(noticeMessage{n, n.Amount, n.Currency, int8(n.Result)})
		if err != nil {
			return err.Error()
		}
		s, err := at.payments.Webhook(l.ctx, provider, signature, body)
		if err != nil {
			return errorCode(err)
		}
		delivered()
		return "ok " + s.Payment.Status.String() + " " + s.Order.Status.String()
	}, effect: func(m model, _ *snapshot) string {
		switch {
		case provider != "sandbox" && provider != "other":
			return "not_found"
		case signature != "signed":
			return "unauthenticated"
		}
		return m.settle(provider, n)
	}}
}

func (l *life) deliver(at *server, n *notice) action {
	return l.notify(at, n.provider, "signed", n.PaymentNotice, func() { n.delivered.Store(true) })
}

// webhook delivers any notice that exists: late, out of order or again.
func (l *life) webhook(t *rapid.T) {
	at, notices := l.anyServer(t), l.bank.notices
	undelivered := slices.DeleteFunc(slices.Clone(notices), func(n *notice) bool { return n.delivered.Load() })
	if len(undelivered) > 0 && rapid.Bool().Draw(t, "undelivered") {
		notices = undelivered
	}
	l.performWithFaults(t, 1, l.deliver(at, evenly(t, "notice", notices...)))
}

// forge delivers a defective notice. A wrong amount or order is what the bank actually recorded: it has the money.
func (l *life) forge(t *rapid.T) {
	n := domain.PaymentNotice{Ref: "made up", OrderID: l.anyTarget(t, domain.OrderPendingPayment).id, Result: domain.PaymentSucceeded}
	refs := slices.Sorted(maps.Keys(l.model.payments))
	open := slices.DeleteFunc(slices.Clone(refs), func(ref string) bool { return l.model.payments[ref].status != domain.PaymentPending })
	if len(open) > 0 && rapid.Bool().Draw(t, "open") {
		refs = open
	}
	if len(refs) > 0 {
		n.Ref = evenly(t, "ref", refs...)
	}
	name, signature := "sandbox", "signed"
	p, known := l.model.payments[n.Ref]
	if known {
		name = p.provider
	}
	wrong := evenly(t, "what", "amount", "order", "signature", "provider")
	if wrong == "amount" && known {
		n.OrderID = p.order
	}
	if wrong == "order" && (!known || p.order == n.OrderID) {
		n.OrderID = 12345
	}
	n.Amount = l.model.orders[n.OrderID].amount
	switch wrong {
	case "amount":
		n.Amount++
	case "order":
		n.Amount = max(n.Amount, 1)
	case "signature":
		signature = "forged"
	case "provider":
		name = "unknown"
	}
	if (wrong == "amount" || wrong == "order") && (!known || p.order == n.OrderID && p.provider == name) {
		a := l.bank.find(n.Ref)
		if a == nil {
			a = &account{provider: name, ref: n.Ref, order: n.OrderID}
			l.bank.accounts = append(l.bank.accounts, a)
		}
		if !a.taken {
			a.amount, a.taken = n.Amount, true
			l.bank.notices = append(l.bank.notices, &notice{provider: name, PaymentNotice: n})
		}
	}
	l.performWithFaults(t, 1, l.notify(l.anyServer(t), name, signature, n, func() {}))
}

// unpaid returns the accounts of the bank without money.
func (l *life) unpaid() []*account {
	return slices.DeleteFunc(slices.Clone(l.bank.accounts), func(a *account) bool { return a.taken })
}

// with returns the ids of the orders in a status, sorted.
func (l *life) with(status domain.OrderStatus) []int64 {
	return slices.DeleteFunc(l.targets(), func(id int64) bool { return l.model.orders[id].status != status })
}

// payAndDeliver is the common case: the buyer pays and every notice of the order is delivered.
func (l *life) payAndDeliver(t *rapid.T) {
	id := evenly(t, "order", l.with(domain.OrderPendingPayment)...)
	l.perform(l.payAt(t, l.servers[0], target{l.owner(id), id}))
	l.check()
	for _, a := range l.unpaid() {
		if a.order == id {
			a.taken = true
			l.bank.notify(a, domain.PaymentSucceeded)
		}
	}
	for _, n := range l.bank.notices { // including payments made earlier
		if n.OrderID == id {
			l.perform(l.deliver(l.servers[1], n))
			l.check()
		}
	}
}

// payAtBank completes a payment at the bank at the first or second attempt, or abandons it.
func (l *life) payAtBank(t *rapid.T) {
	a := evenly(t, "account", l.unpaid()...)
	if oneIn(t, "fails", 2) {
		l.bank.notify(a, domain.PaymentFailed)
	}
	if a.taken = !oneIn(t, "gives up", 4); a.taken {
		l.bank.notify(a, domain.PaymentSucceeded)
	}
}

func (b *bank) notify(a *account, result domain.PaymentStatus) {
	b.notices = append(b.notices, &notice{provider: a.provider, PaymentNotice: domain.PaymentNotice{
		Ref: a.ref, OrderID: a.order, Amount: a.amount, Result: result,
	}})
}

// payUnsolicited creates money for an order at the bank without a payment that the product began.
func (l *life) payUnsolicited(t *rapid.T) {
	id := l.anyTarget(t, 0).id
	if o, stored := l.model.orders[id]; stored {
		a := &account{provider: "sandbox", ref: "unasked " + strconv.Itoa(len(l.bank.accounts)), order: id, amount: o.amount, taken: true}
		l.bank.accounts = append(l.bank.accounts, a)
		l.bank.notify(a, domain.PaymentSucceeded)
	}
}

// withMoney returns the accounts of the bank with money that may go back.
func (l *life) withMoney() []*account {
	return slices.DeleteFunc(slices.Clone(l.bank.accounts), func(a *account) bool { return !a.taken || a.reversed })
}

// reverseAtBank returns money without a request of the product: by staff of the merchant, or because the buyer disputes it.
func (l *life) reverseAtBank(t *rapid.T) {
	a := evenly(t, "account", l.withMoney()...)
	a.returned, a.reversed = true, true
	l.bank.notify(a, evenly(t, "by", domain.PaymentRefunded, domain.PaymentDisputed))
}

func (l *life) refunding() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(l.model.payments)), func(p payment) bool { return p.status == domain.PaymentRefunding })
}

// returnMoney makes some refunds due and lets one or both servers request them from the bank.
func (l *life) returnMoney(t *rapid.T) {
	l.bank.refundFaults = map[string]string{}
	due := map[string]bool{}
	for _, ref := range slices.Sorted(maps.Keys(l.model.payments)) {
		if l.model.payments[ref].status != domain.PaymentRefunding {
			continue
		}
		next := farAhead
		if !oneIn(t, "not due", 4) {
			next, due[ref] = longAgo, true
			l.bank.refundFaults[ref] = evenly(t, "bank", "", "", "", bankRefuses, bankLosesReply)
		}
		l.sql("UPDATE payments SET next_try_at = ? WHERE provider_ref = ?", next, ref)
	}
	if oneIn(t, "both", 3) {
		l.perform(l.returnDue(l.servers[0], due, l.servers[1]))
		return
	}
	l.performWithFaults(t, 3, l.returnDue(l.anyServer(t), due))
}

// returnDue requires one refund request per due payment and that each confirmed refund is recorded. The first
// transaction selects the due refunds; each later one records one payment. They run concurrently, so which payment a
// fault affects is open. Other servers may do the same at the same time and share the work.
func (l *life) returnDue(at *server, due map[string]bool, others ...*server) action {
	var code string
	return action{name: "return money", at: at, whole: true, do: func() string {
		errs := make([]error, 1+len(others))
		var all sync.WaitGroup
		for i, s := range append([]*server{at}, others...) {
			all.Go(func() { errs[i] = s.payments.RefundDue(l.ctx) })
		}
		all.Wait()
		code = errorCode(errors.Join(errs...))
		return code
	}, effect: func(m model, now *snapshot) string {
		requested, silent, missing := map[string]bool{}, false, 0
		for _, call := range l.bank.refunds {
			require.True(l, due[call.ref] && !requested[call.ref], "refund of payment %s: not due or requested twice", call.ref)
			requested[call.ref] = true
			switch {
			case !call.confirmed:
				silent = true
			case now.payments[call.ref].status == domain.PaymentRefunded:
				m.finishRefund(call.ref)
			default:
				missing++
			}
		}
		injected, crashed := l.injected.Load(), l.crashed.Load()
		if !crashed {
			lost := 0
			if injected && l.fault.at > 1 && !l.fault.done() {
				lost = 1
			}
			require.Equal(l, lost, missing, "payments that the bank returned and the database does not record")
		}
		if cut := crashed || injected && l.fault.at == 1; !cut {
			require.Equal(l, due, requested, "refunds requested from the bank")
		}
		switch {
		case injected && silent && code == "bank_unavailable": // both failed, one error is returned
			return code
		case injected:
			return "unavailable"
		case silent:
			return "bank_unavailable"
		}
		return "ok"
	}}
}

// serverStore is the store as the servers call it, with a fault injected into one transaction. A planted fault changes what an
// operation gets, or has read.
type serverStore struct {
	*repo.Store
	w *world
}

type (
	closeLimit int
	retryPause func(tries int) time.Duration
)

func (w *world) edit(value any) {
	if w.planted.edit != nil {
		w.planted.edit(w, value)
	}
}

// transact executes a transaction of a server. With an injected fault the server gets no result.
func transact[T any](w *world, do func() (T, error)) (T, error) {
	var result, none T
	err := w.transact(func() error {
		var err error
		result, err = do()
		return err
	})
	if errors.Is(err, errInjected) {
		return none, err
	}
	return result, err
}

func (s *serverStore) PlaceOrders(ctx context.Context, orders []domain.NewOrder) []domain.Placed {
	placed, err := transact(s.w, func() ([]domain.Placed, error) {
		s.w.edit(&orders)
		return s.Store.PlaceOrders(ctx, orders), nil
	})
	if err != nil {
		return slices.Repeat([]domain.Placed{{Err: err}}, len(orders))
	}
	return placed
}

func (s *serverStore) MoveOrder(ctx context.Context, m domain.OrderMove) (domain.Order, error) {
	return transact(s.w, func() (domain.Order, error) {
		s.w.edit(&m)
		return s.Store.MoveOrder(ctx, m)
	})
}

func (s *serverStore) BeginPayment(
	ctx context.Context, claim *domain.Claim, userID int64, p domain.Payment,
) (o domain.Order, began domain.Payment, err error) {
	err = s.w.transact(func() error {
		s.w.edit(&p)
		o, began, err = s.Store.BeginPayment(ctx, claim, userID, p)
		return err
	})
	return o, began, err
}

func (s *serverStore) SettlePayment(ctx context.Context, provider string, n domain.PaymentNotice, at time.Time) (domain.Settled, error) {
	return transact(s.w, func() (domain.Settled, error) {
		s.w.edit(&n)
		return s.Store.SettlePayment(ctx, provider, n, at)
	})
}

func (s *serverStore) BeginRefund(ctx context.Context, m domain.OrderMove) (domain.Order, error) {
	return transact(s.w, func() (domain.Order, error) { return s.Store.BeginRefund(ctx, m) })
}

func (s *serverStore) DueRefunds(ctx context.Context, limit int, wait func(int) time.Duration) ([]domain.Payment, error) {
	return transact(s.w, func() ([]domain.Payment, error) {
		pause := retryPause(wait)
		s.w.edit(&pause)
		return s.Store.DueRefunds(ctx, limit, pause)
	})
}

func (s *serverStore) FinishRefund(ctx context.Context, p domain.Payment, at time.Time) (domain.Settled, error) {
	return transact(s.w, func() (domain.Settled, error) { return s.Store.FinishRefund(ctx, p, at) })
}

func (s *serverStore) CloseExpired(ctx context.Context, limit int, unanswered bool) ([]domain.Order, error) {
	return transact(s.w, func() ([]domain.Order, error) {
		most := closeLimit(limit)
		s.w.edit(&most)
		return s.Store.CloseExpired(ctx, int(most), unanswered)
	})
}

func (s *serverStore) ChangeVoucher(
	ctx context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (string, error),
) (domain.Voucher, error) {
	return transact(s.w, func() (domain.Voucher, error) { return s.Store.ChangeVoucher(ctx, id, by, change) })
}

func (s *serverStore) ChangeStock(ctx context.Context, c domain.StockChange) (domain.Voucher, error) {
	return transact(s.w, func() (domain.Voucher, error) { return s.Store.ChangeStock(ctx, c) })
}

func (s *serverStore) Vouchers(ctx context.Context, ids []int64) ([]domain.Voucher, error) {
	found, err := s.Store.Vouchers(ctx, ids)
	s.w.edit(&found)
	return found, err
}

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
	m.PaymentNotice.Amount, m.PaymentNotice.Currency = m.Amount, m.Currency
	m.PaymentNotice.Result = domain.PaymentStatus(m.Result)
	return m.PaymentNotice, err
}

// noticeMessage is the form in which the bank sends a notice.
type noticeMessage struct {
	domain.PaymentNotice
	Amount   int64
	Currency string
	Result   int8
}
