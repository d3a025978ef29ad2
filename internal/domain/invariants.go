package domain

import (
	"fmt"
	"slices"
)

// SaleTotals are the totals of one sale in the database, read in one snapshot.
type SaleTotals struct {
	VoucherID    int64
	InitialStock int64
	// Sum of stock_changes.
	Additions int64
	Stock     int64 // units left
	Active    int64 // active orders
	// Users with more active orders than the sale allows.
	OverLimit int64
	// Orders whose slot does not match their status.
	BadSlots int64
}

// Violation is a broken invariant.
type Violation struct {
	// "I1", "I2", "I3" or "I5".
	Invariant string
	Detail    string
	// Orders that break it or are suspected to; set by SaleFacts.Check only.
	Orders Named

	// Of the two checks of I2, the one of BadSlots.
	slots bool
}

// Check returns the broken invariants: I1 no oversell, I2 one order per user, I3 conservation, I5 no undersell (every
// unit without an active order can be bought).
func (b SaleTotals) Check() []Violation {
	var out []Violation
	report := func(invariant, format string, args ...any) {
		out = append(out, Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...)})
	}

	total := b.InitialStock + b.Additions
	if b.Active > total {
		report("I1", "%d active orders for %d units", b.Active, total)
	}
	if b.OverLimit > 0 {
		report("I2", "%d users hold more active orders than allowed", b.OverLimit)
	}
	if b.BadSlots > 0 {
		report("I2", "%d orders have a slot that does not match their status", b.BadSlots)
		out[len(out)-1].slots = true
	}
	if b.Stock+b.Active != total {
		report("I3", "%d units left + %d active orders, but %d units in total", b.Stock, b.Active, total)
	}
	if free := total - b.Active; b.Stock < free {
		report("I5", "%d units are free, but only %d can be bought", free, b.Stock)
	}

	return out
}

// Holds reports whether no violation of an invariant was found.
func (b SaleTotals) Holds(invariant string) bool {
	return !slices.ContainsFunc(b.Check(), func(v Violation) bool { return v.Invariant == invariant })
}

// Verdict is the result of checking one invariant. OK is nil if the check could not be made.
type Verdict struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	OK     *bool  `json:"ok"`
	Detail string `json:"detail"`
}

// Broken reports whether the invariant was checked and does not hold.
func (v Verdict) Broken() bool { return v.OK != nil && !*v.OK }

// titles has all invariants by ID. The database cannot prove I4 and I6, which concern the answers to buyers.
var titles = map[string]string{
	"I1": "No oversell",
	"I2": "One order per user",
	"I3": "Conservation",
	"I4": "Answers are true",
	"I5": "No undersell",
	"I6": "Order IDs are unique",
}

// NewVerdict returns the verdict on an invariant, with the numbers that were compared.
func NewVerdict(id string, ok bool, format string, args ...any) Verdict {
	return Verdict{
		ID:     id,
		Title:  titles[id],
		OK:     &ok,
		Detail: fmt.Sprintf(format, args...),
	}
}

// Invariants returns the verdict on every invariant that the sale totals can prove.
func (b SaleTotals) Invariants() []Verdict {
	total := b.InitialStock + b.Additions
	list := []Verdict{
		NewVerdict("I1", true, "%d active of %d", b.Active, total),
		NewVerdict("I2", true, "no user exceeds the limit"),
		NewVerdict("I3", true, "%d left + %d active = %d", b.Stock, b.Active, total),
		NewVerdict("I5", true, "%d free, all of them for sale", b.Stock),
	}

	for _, v := range b.Check() {
		i := slices.IndexFunc(list, func(p Verdict) bool { return p.ID == v.Invariant })
		list[i] = NewVerdict(v.Invariant, false, "%s", v.Detail)
	}

	return list
}
