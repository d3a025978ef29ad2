package domain

import "fmt"

// SaleTotals are the totals of one sale in the database, read in one snapshot.
type SaleTotals struct {
	VoucherID    int64
	InitialStock int64
	Additions    int64 // sum of stock_changes
	Stock        int64 // units left
	Active       int64 // active orders
	OverLimit    int64 // users with more active orders than the sale allows
	BadSlots     int64 // orders whose slot does not match their status
}

// Violation is a broken invariant.
type Violation struct {
	Invariant string // "I1", "I2", "I3" or "I5"
	Detail    string
	Orders    Named // orders that break it or are suspected to; set by SaleFacts.Check only

	rule rule
}

// rule identifies a check. I2 has two.
type rule int

const (
	ruleOversold rule = iota
	ruleOverLimit
	ruleSlots
	ruleBalance
	ruleUndersold
)

// Check returns the broken invariants: I1 no oversell, I2 one order per user, I3 conservation, I5 no undersell (every
// unit without an active order can be bought).
func (b SaleTotals) Check() []Violation {
	var out []Violation
	report := func(r rule, format string, args ...any) {
		invariant := [...]string{"I1", "I2", "I2", "I3", "I5"}[r]
		out = append(out, Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...), rule: r})
	}
	total := b.InitialStock + b.Additions
	if b.Active > total {
		report(ruleOversold, "%d active orders for %d units", b.Active, total)
	}
	if b.OverLimit > 0 {
		report(ruleOverLimit, "%d users hold more active orders than allowed", b.OverLimit)
	}
	if b.BadSlots > 0 {
		report(ruleSlots, "%d orders have a slot that does not match their status", b.BadSlots)
	}
	if b.Stock+b.Active != total {
		report(ruleBalance, "%d units left + %d active orders, but %d units in total", b.Stock, b.Active, total)
	}
	if free := total - b.Active; b.Stock < free {
		report(ruleUndersold, "%d units are free, but only %d can be bought", free, b.Stock)
	}
	return out
}

// Invariant is the result of checking one invariant against the database. OK is nil if the check could not be made.
type Invariant struct {
	ID, Title string
	OK        *bool
	Detail    string
}

// Invariants returns the result of every invariant that the sale totals can prove, with the numbers.
func (b SaleTotals) Invariants() []Invariant {
	total := b.InitialStock + b.Additions
	list := []Invariant{
		{ID: "I1", Title: "No oversell", Detail: fmt.Sprintf("%d active of %d", b.Active, total)},
		{ID: "I2", Title: "One order per user", Detail: "no user exceeds the limit"},
		{ID: "I3", Title: "Conservation", Detail: fmt.Sprintf("%d left + %d active = %d", b.Stock, b.Active, total)},
		{ID: "I5", Title: "No undersell", Detail: fmt.Sprintf("%d free, all of them for sale", b.Stock)},
	}
	broken := b.Check()
	for i := range list {
		p, holds := &list[i], true
		for _, v := range broken {
			if v.Invariant == p.ID {
				holds, p.Detail = false, v.Detail
			}
		}
		p.OK = &holds
	}
	return list
}
