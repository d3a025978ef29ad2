package sim_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/service"
	"seckill/internal/sim"
)

func (l *life) pay(t *rapid.T, at *shop, of target) deed {
	l.bank.createFate = sim.Evenly(t, "bank", "", "", "", "", "", "", refuses, losesReply)
	return l.payAt(t, at, of)
}

// payAt is a buyer who presses the button, and then goes to the bank.
func (l *life) payAt(t *rapid.T, at *shop, of target) deed {
	name, absent := sim.Evenly(t, "provider", "sandbox", "other"), l.notStored(of)
	silent := l.bank.createFate != ""
	return deed{name: "pay", at: at, do: func() string {
		_, p, err := at.payments.Pay(l.ctx, of.user, of.id, name)
		if err != nil {
			return word(err)
		}
		return "ok " + p.Ref
	}, effect: func(b books, now *picture) string {
		if !b.owned(of.user, of.id) {
			return absent
		}
		ref, word := b.pay(of.id, name, now)
		switch {
		case word != "ok":
			return word
		case silent:
			return "unavailable"
		}
		return "ok " + ref
	}}
}

func (l *life) refund(_ *rapid.T, at *shop, of target) deed {
	absent := l.notStored(of)
	return deed{name: "refund", at: at, do: func() string {
		_, err := at.payments.Refund(l.ctx, of.user, of.id)
		return word(err)
	}, effect: func(b books, _ *picture) string {
		if !b.owned(of.user, of.id) {
			return absent
		}
		return b.refund(of.user, of.id)
	}}
}

// notify calls the webhook.
func (l *life) notify(at *shop, provider, signature string, n service.PaymentNotice, heard func()) deed {
	return deed{name: "webhook", at: at, do: func() string {
		body, err := json.Marshal(n)
		if err != nil {
			return err.Error()
		}
		s, err := at.payments.Webhook(l.ctx, provider, signature, body)
		if err != nil {
			return word(err)
		}
		heard()
		return "ok " + s.Payment.Status.String() + " " + s.Order.Status.String()
	}, effect: func(b books, _ *picture) string {
		switch {
		case provider != "sandbox" && provider != "other":
			return "not_found"
		case signature != "signed":
			return "unauthenticated"
		}
		return b.settle(provider, n)
	}}
}

// deliver is a notice on its way.
func (l *life) deliver(at *shop, n *notice) deed {
	return l.notify(at, n.provider, "signed", n.PaymentNotice, func() { n.heard.Store(true) })
}

// webhook tells what any provider ever had to say: late, in another order, and again.
func (l *life) webhook(t *rapid.T) {
	at, notices := l.anyShop(t), l.bank.notices
	unheard := slices.DeleteFunc(slices.Clone(notices), func(n *notice) bool { return n.heard.Load() })
	if len(unheard) > 0 && rapid.Bool().Draw(t, "news") {
		notices = unheard
	}
	l.harmed(t, 1, l.deliver(at, sim.Evenly(t, "notice", notices...)))
}

// forge is a notice with which something is wrong. If it is the amount or the order, the bank means it: it has the money.
func (l *life) forge(t *rapid.T) {
	n := service.PaymentNotice{Ref: "made up", OrderID: l.anyTarget(t, service.OrderPendingPayment).id, Succeeded: true}
	refs := slices.Sorted(maps.Keys(l.books.payments))
	open := slices.DeleteFunc(slices.Clone(refs), func(ref string) bool { return l.books.payments[ref].status != service.PaymentPending })
	if len(open) > 0 && rapid.Bool().Draw(t, "open") {
		refs = open
	}
	if len(refs) > 0 {
		n.Ref = sim.Evenly(t, "ref", refs...)
	}
	name, signature := "sandbox", "signed"
	p, known := l.books.payments[n.Ref]
	if known {
		name = p.provider
	}
	wrong := sim.Evenly(t, "what", "amount", "order", "signature", "provider")
	if wrong == "amount" && known {
		n.OrderID = p.order
	}
	if wrong == "order" && (!known || p.order == n.OrderID) {
		n.OrderID = 12345
	}
	n.Amount = l.books.orders[n.OrderID].amount
	switch wrong {
	case "amount":
		n.Amount++
	case "order":
		n.Amount = max(n.Amount, 1)
	case "signature":
		signature = "forged"
	case "provider":
		name = "nobody"
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
	l.harmed(t, 1, l.notify(l.anyShop(t), name, signature, n, func() {}))
}

// unpaid are the accounts of the bank whose money has not come.
func (l *life) unpaid() []*account {
	return slices.DeleteFunc(slices.Clone(l.bank.accounts), func(a *account) bool { return a.taken })
}

func (l *life) unpaidOrders() bool { return len(l.with(service.OrderPendingPayment)) > 0 }

// with are the orders in a status, sorted.
func (l *life) with(status service.OrderStatus) []int64 {
	return slices.DeleteFunc(l.targets(), func(id int64) bool { return l.books.orders[id].status != status })
}

// payToTheEnd is a payment as most are.
func (l *life) payToTheEnd(t *rapid.T) {
	id := sim.Evenly(t, "order", l.with(service.OrderPendingPayment)...)
	l.perform(l.payAt(t, l.shops[0], target{l.owner(id), id}))
	l.check()
	for _, a := range l.unpaid() {
		if a.order == id {
			a.taken = true
			l.bank.say(a, true)
		}
	}
	for _, n := range l.bank.notices { // or one that he had paid before
		if n.OrderID == id {
			l.perform(l.deliver(l.shops[1], n))
			l.check()
		}
	}
}

// payAtBank is a buyer at the bank, who pays at the first or the second try, or does not.
func (l *life) payAtBank(t *rapid.T) {
	a := sim.Evenly(t, "account", l.unpaid()...)
	if once(t, "fails", 2) {
		l.bank.say(a, false)
	}
	if a.taken = !once(t, "gives up", 4); a.taken {
		l.bank.say(a, true)
	}
}

func (b *bank) say(a *account, succeeded bool) {
	b.notices = append(b.notices, &notice{provider: a.provider, PaymentNotice: service.PaymentNotice{
		Ref: a.ref, OrderID: a.order, Amount: a.amount, Succeeded: succeeded,
	}})
}

// payUnasked is money of which the provider tells first.
func (l *life) payUnasked(t *rapid.T) {
	id := l.anyTarget(t, 0).id
	if o, stored := l.books.orders[id]; stored {
		a := &account{provider: "sandbox", ref: "unasked " + strconv.Itoa(len(l.bank.accounts)), order: id, amount: o.amount, taken: true}
		l.bank.accounts = append(l.bank.accounts, a)
		l.bank.say(a, true)
	}
}

// refunding says whether money is to go back.
func (l *life) refunding() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(l.books.payments)), func(p payment) bool { return p.status == service.PaymentRefunding })
}

// returnMoney lets the time of some refunds come, and a server ask the bank for them.
func (l *life) returnMoney(t *rapid.T) {
	l.bank.refundFate = map[string]string{}
	due := map[string]bool{}
	for _, ref := range slices.Sorted(maps.Keys(l.books.payments)) {
		if l.books.payments[ref].status != service.PaymentRefunding {
			continue
		}
		next := farAhead
		if due[ref] = !once(t, "not due", 4); due[ref] {
			next = longAgo
			l.bank.refundFate[ref] = sim.Evenly(t, "bank", "", "", "", refuses, losesReply)
		} else {
			delete(due, ref)
		}
		_, err := l.db.ExecContext(l.ctx, "UPDATE payments SET next_try_at = ? WHERE provider_ref = ?", next, ref)
		require.NoError(l, err)
	}
	if once(t, "both", 3) {
		l.perform(l.returnDue(l.shops[0], due, l.shops[1]))
		return
	}
	l.harmed(t, 3, l.returnDue(l.anyShop(t), due))
}

// returnDue: the bank is asked for what is due, once, and what it has confirmed is noted. The first transaction finds
// what is due, and each of the others notes one payment; they run side by side, so that nobody knows which of them harm
// strikes. Other servers may do it at the same time: they share the work.
func (l *life) returnDue(at *shop, due map[string]bool, others ...*shop) deed {
	var heard string
	return deed{name: "return money", at: at, whole: true, do: func() string {
		errs := make([]error, 1+len(others))
		var all sync.WaitGroup
		for i, s := range append([]*shop{at}, others...) {
			all.Go(func() { errs[i] = s.payments.RefundDue(l.ctx) })
		}
		all.Wait()
		heard = word(errors.Join(errs...))
		return heard
	}, effect: func(b books, now *picture) string {
		asked, silent, missing := map[string]bool{}, false, 0
		for _, call := range l.bank.refunds {
			require.True(l, due[call.ref] && !asked[call.ref], "payment %s is returned", call.ref)
			asked[call.ref] = true
			switch {
			case !call.yes:
				silent = true
			case now.payments[call.ref].status == service.PaymentRefunded:
				b.returned(call.ref)
			default:
				missing++
			}
		}
		struck, dead := l.hit.Load(), l.dead.Load()
		if !dead {
			lost := 0
			if struck && l.fate.at > 1 && !l.fate.done() {
				lost = 1
			}
			require.Equal(l, lost, missing, "payments that the bank has returned, and that are not noted")
		}
		if cut := dead || struck && l.fate.at == 1; !cut {
			require.Equal(l, due, asked, "what the bank was asked for")
		}
		switch {
		case struck && silent && heard == "the bank is silent": // both went wrong, and one is told
			return heard
		case struck:
			return "unavailable"
		case silent:
			return "the bank is silent"
		}
		return "ok"
	}}
}
