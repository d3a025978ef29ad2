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

	mu sync.Mutex
	// Answers to purchases by code.
	codes map[string]int
	// By purchase.
	entries []entry
	// Purchases with an order, in the order of their answers.
	placed     []int
	changes    []stockChange
	violations []Violation
	// Violations beyond maxViolations.
	further int
}

// entry is the last answer to a purchase.
type entry struct {
	code string
	// 0: none.
	order int64
	began time.Time
	ended time.Time
	// It is not the buyer's first try.
	again bool
	// The order has one of these.
	want []domain.OrderStatus
}

// stockChange is a change of a sale's stock by an admin.
type stockChange struct {
	// Unique.
	reason  string
	delta   int64
	outcome outcome
}

// outcome is what is known of a change.
type outcome int

const (
	refused outcome = iota
	made
	unknown
)

// Violation is a broken promise.
type Violation struct {
	Invariant string `json:"invariant"`
	Detail    string `json:"detail"`
	// Since the begin of the campaign.
	At time.Duration `json:"at_ns"`
}

// maxViolations bounds the violations that are kept.
const maxViolations = 100

func newLedger(purchases int) *ledger {
	return &ledger{
		began:   time.Now(),
		codes:   map[string]int{},
		entries: make([]entry, purchases),
	}
}

func (l *ledger) count(code string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.codes[code]++
}

func (l *ledger) answered(i int, a rush.Answer, began time.Time) {
	e := entry{
		code:  a.Code,
		began: began,
		ended: time.Now(),
		want:  []domain.OrderStatus{domain.OrderPendingPayment},
	}

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

func (l *ledger) expect(i int, statuses ...domain.OrderStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[i].want = statuses
}

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

func (l *ledger) orders() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.placed)
}

func (l *ledger) ordersFrom(n int) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()

	var ids []int64
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

// violate records a broken promise, unless it is known.
func (l *ledger) violate(invariant, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()

	v := Violation{
		Invariant: invariant,
		Detail:    fmt.Sprintf(format, args...),
		At:        time.Since(l.began).Round(time.Millisecond),
	}

	for _, known := range l.violations {
		if known.Invariant == v.Invariant && known.Detail == v.Detail {
			return
		}
	}

	if len(l.violations) == maxViolations {
		l.further++
		return
	}

	l.violations = append(l.violations, v)
}
