package main

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"seckill/internal/domain"
	"seckill/internal/ops/rush"
)

// ledger records what buyers and admins were answered, and the violations. It is safe for concurrent use.
type ledger struct {
	began time.Time

	mu         sync.Mutex
	codes      map[string]int // answers to purchases by code
	entries    []entry        // by purchase
	placed     []int          // purchases with an order, in the order of their answers
	changes    []stockChange
	violations []Violation
	further    int // violations beyond maxViolations
}

// entry is the last answer to a purchase.
type entry struct {
	code         string
	order        int64 // 0: none
	began, ended time.Time
	again        bool                 // it is not the buyer's first try
	want         []domain.OrderStatus // one of which the order has
}

// stockChange is a change of a sale's stock by an admin.
type stockChange struct {
	reason        string // unique
	delta         int64
	done, unknown bool // neither: it was refused
}

// Violation is a broken promise.
type Violation struct {
	Invariant string        `json:"invariant"`
	Detail    string        `json:"detail"`
	At        time.Duration `json:"at_ns"` // since the begin of the campaign
}

// maxViolations bounds the violations that are kept.
const maxViolations = 100

func newLedger(purchases int) *ledger {
	return &ledger{began: time.Now(), codes: map[string]int{}, entries: make([]entry, purchases)}
}

// count counts an answer to a purchase.
func (l *ledger) count(code string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.codes[code]++
}

// answered records the final answer to a purchase that began at a time.
func (l *ledger) answered(i int, a rush.Answer, began time.Time) {
	e := entry{code: a.Code, began: began, ended: time.Now(), want: []domain.OrderStatus{domain.OrderPendingPayment}}
	if a.Code == "ok" {
		id, err := strconv.ParseInt(a.Order.ID, 10, 64)
		if err != nil {
			l.violate("I4", "an order has the id %q", a.Order.ID)
			return
		}
		e.order = id
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.again = !l.entries[i].ended.IsZero()
	l.entries[i] = e
	if e.order != 0 {
		l.placed = append(l.placed, i)
	}
}

// expect sets the statuses of which the order has one.
func (l *ledger) expect(i int, statuses ...domain.OrderStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[i].want = statuses
}

// expectAlso adds statuses of which the order may have one, before a request is sent.
func (l *ledger) expectAlso(i int, statuses ...domain.OrderStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[i].want = append(slices.Clone(l.entries[i].want), statuses...)
}

func (l *ledger) entry(i int) entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[i]
}

// orders returns the number of orders.
func (l *ledger) orders() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.placed)
}

// ordersFrom returns the ids of the orders from the nth on.
func (l *ledger) ordersFrom(n int) (ids []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range l.placed[n:] {
		ids = append(ids, l.entries[i].order)
	}
	return ids
}

func (l *ledger) changed(c stockChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes = append(l.changes, c)
}

// violate records a broken promise.
func (l *ledger) violate(invariant, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := Violation{invariant, fmt.Sprintf(format, args...), time.Since(l.began).Round(time.Millisecond)}
	switch {
	case slices.ContainsFunc(l.violations, func(w Violation) bool { return w.Invariant == v.Invariant && w.Detail == v.Detail }):
	case len(l.violations) == maxViolations:
		l.further++
	default:
		l.violations = append(l.violations, v)
	}
}
