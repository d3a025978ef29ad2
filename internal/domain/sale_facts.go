package domain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// MaxNamed is the largest number of orders that a finding lists; the others are only counted.
const MaxNamed = 20

// Named is a number of orders with a list of the first ones.
type Named struct {
	Count int64
	// At most MaxNamed.
	Orders []Holder
}

// NewNamed counts the orders and lists the first MaxNamed.
func NewNamed(hs []Holder) Named {
	return Named{Count: int64(len(hs)), Orders: hs[:min(len(hs), MaxNamed)]}
}

// OverdueSince are the times that decide which orders are overdue. No order is if a time is zero.
type OverdueSince struct {
	// Unpaid orders that expired earlier should be closed.
	Expired time.Time
	// Refunds that began earlier should be done.
	Refunding time.Time
}

// SaleFacts is the state of a sale in the database, read in one snapshot.
type SaleFacts struct {
	VoucherID int64
	// Sale is nil for a normal voucher and for one that does not exist.
	Voucher Voucher
	Active  int64 // active orders

	// Whether the active orders exceed the limit of the query and were not read.
	TooMany bool
	// The active orders, lowest id first.
	Holders []Holder
	// The queried ids of queued orders that exist, active or not.
	Settled []int64

	// Orders whose slot does not match their status.
	BadSlots Named
	// Orders that returned their unit, newest first.
	Returned Named
	// Unpaid orders that should have been closed.
	Expired Named
	// Refunds that should be done.
	Refunding Named
}

// OrderFact is an existing order and whether it is active.
type OrderFact struct {
	Holder
	Active bool
}

// Totals returns the ledger of the sale.
func (f *SaleFacts) Totals() SaleTotals {
	b := SaleTotals{
		VoucherID: f.VoucherID,
		Active:    f.Active,
		BadSlots:  f.BadSlots.Count,
	}

	if s := f.Voucher.Sale; s != nil {
		b.InitialStock = s.InitialStock
		b.Additions = s.Added
		b.Stock = s.Stock
		b.OverLimit = int64(len(f.overLimit()))
	}

	return b
}

// Check returns the broken invariants with orders: those that break the invariant if they can be determined, otherwise
// the likely ones.
func (f *SaleFacts) Check() []Violation {
	violations := f.Totals().Check()
	for i := range violations {
		f.name(&violations[i])
	}
	return violations
}

func (f *SaleFacts) name(v *Violation) {
	b := f.Totals()

	// Units left or held beyond the total.
	excess := b.Stock + b.Active - b.InitialStock - b.Additions

	newest := func(n int64) []Holder {
		hs := slices.Clone(f.Holders[max(0, len(f.Holders)-int(n)):])
		slices.Reverse(hs)
		return hs
	}

	switch {
	case v.Invariant == "I1" && f.Voucher.Sale == nil:
		v.Detail += "; the sale does not exist"
		v.Orders = NewNamed(f.Holders)
		v.Orders.Count = f.Active
	case v.Invariant == "I1":
		v.Detail += "; the newest orders are in excess"
		v.Orders = NewNamed(newest(f.Active - b.InitialStock - b.Additions))
	case v.Invariant == "I2" && v.slots:
		v.Orders = f.BadSlots
	case v.Invariant == "I2":
		users := f.overLimit()
		v.Detail += ": " + userList(users)
		v.Orders = NewNamed(slices.Concat(users...))
	case v.Invariant == "I3" && excess > 0:
		v.Detail += "; an order took no unit (possibly one of the newest), or units were added without a stock change"
		v.Orders = NewNamed(newest(MaxNamed))
	default:
		v.Detail += "; an order did not return its unit (possibly one of these), or units were removed without a stock change"
		v.Orders = f.Returned
	}
}

// overLimit returns the orders of each user who has more than the limit, lowest user id first.
func (f *SaleFacts) overLimit() [][]Holder {
	if f.Voucher.Sale == nil {
		return nil
	}

	counts := make(map[int64]int, len(f.Holders))
	for _, h := range f.Holders {
		counts[h.UserID]++
	}

	over := map[int64][]Holder{}
	for _, h := range f.Holders {
		if counts[h.UserID] > f.Voucher.Sale.LimitPerUser {
			over[h.UserID] = append(over[h.UserID], h)
		}
	}

	var users [][]Holder
	for _, id := range slices.Sorted(maps.Keys(over)) {
		users = append(users, over[id])
	}

	return users
}

func userList(users [][]Holder) string {
	var words []string
	for _, u := range users[:min(len(users), MaxNamed)] {
		words = append(words, fmt.Sprintf("user %d has %d", u[0].UserID, len(u)))
	}
	if len(users) > MaxNamed {
		words = append(words, "...")
	}
	return strings.Join(words, ", ")
}
