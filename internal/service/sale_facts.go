package service

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxNamed is how many orders a finding names; of the others it tells how many they are.
const MaxNamed = 20

// Named are orders of which only the first are named.
type Named struct {
	Count  int64
	Orders []Holder // at most MaxNamed
}

// NewNamed counts the orders and names the first of them.
func NewNamed(hs []Holder) Named {
	return Named{Count: int64(len(hs)), Orders: hs[:min(len(hs), MaxNamed)]}
}

// OverdueSince are the moments before which something should have happened.
type OverdueSince struct {
	Expired   time.Time // orders that had to be paid before it should be closed
	Refunding time.Time // orders whose refund began before it should be refunded
}

// SaleFacts is what the database says about a sale, all of one moment.
type SaleFacts struct {
	VoucherID int64
	Voucher   Voucher // without a Sale: the voucher is none that is sold in flash sales, or is not there at all
	Additions int64   // sum of stock_changes
	Active    int64   // orders that hold a unit
	Sum       int64   // of their ids modulo LevelDigits

	TooMany bool     // there are more active orders than were asked for, and they were not read
	Holders []Holder // the active orders, the oldest id first
	Settled []int64  // those of the ids in flight that exist, active or not

	BadSlots  Named // orders whose slot does not fit their status
	Returned  Named // the orders that gave their unit back, the newest first
	Expired   Named // unpaid and past their time
	Refunding Named // for too long
}

// OrderFact is an order that exists.
type OrderFact struct {
	Holder
	Active bool
}

// Books are the accounts.
func (f *SaleFacts) Books() Books {
	b := Books{VoucherID: f.VoucherID, Additions: f.Additions, Active: f.Active, BadSlots: f.BadSlots.Count}
	if s := f.Voucher.Sale; s != nil {
		b.InitialStock, b.Stock = s.InitialStock, s.Stock
		b.OverLimit = int64(len(f.overLimit()))
	}
	return b
}

// Check returns what is wrong with the books, and names orders: those that break the rule where it can be told, else
// those among which the one must be.
func (f *SaleFacts) Check() []Violation {
	violations := f.Books().Check()
	for i := range violations {
		f.name(&violations[i])
	}
	return violations
}

func (f *SaleFacts) name(v *Violation) {
	b := f.Books()
	excess := b.Stock + b.Active - b.InitialStock - b.Additions // units that are there or held, and should not be
	newest := func(n int64) []Holder {
		hs := slices.Clone(f.Holders[max(0, len(f.Holders)-int(n)):])
		slices.Reverse(hs)
		return hs
	}
	switch {
	case v.rule == ruleOversold && f.Voucher.Sale == nil:
		v.Detail += "; there is no such sale"
		v.Orders = NewNamed(f.Holders)
		v.Orders.Count = f.Active
	case v.rule == ruleOversold:
		v.Detail += "; the newest are those beyond"
		v.Orders = NewNamed(newest(f.Active - b.InitialStock - b.Additions))
	case v.rule == ruleOverLimit:
		users := f.overLimit()
		v.Detail += ": " + userList(users)
		for _, u := range users {
			v.Orders.Count += int64(len(u))
			v.Orders.Orders = append(v.Orders.Orders, u...)
		}
		v.Orders.Orders = v.Orders.Orders[:min(len(v.Orders.Orders), MaxNamed)]
	case v.rule == ruleSlots:
		v.Orders = f.BadSlots
	case v.rule == ruleBalance && excess > 0:
		v.Detail += "; an order took no unit, perhaps one of the newest, or a unit was added by nobody"
		v.Orders = NewNamed(newest(MaxNamed))
	case v.rule == ruleBalance, v.rule == ruleUndersold:
		v.Detail += "; an order did not give its unit back, perhaps one of these, or a unit was taken by nobody"
		v.Orders = f.Returned
	}
}

// overLimit are the users who hold more orders than the sale allows, each with his orders.
func (f *SaleFacts) overLimit() [][]Holder {
	if f.Voucher.Sale == nil {
		return nil
	}
	limit := f.Voucher.Sale.LimitPerUser
	counts := make(map[int64]int, len(f.Holders))
	var over []int64
	for _, h := range f.Holders {
		if counts[h.UserID]++; counts[h.UserID] == limit+1 {
			over = append(over, h.UserID)
		}
	}
	slices.Sort(over)
	users := make([][]Holder, len(over))
	if len(over) == 0 {
		return nil
	}
	for _, h := range f.Holders {
		if i, found := slices.BinarySearch(over, h.UserID); found {
			users[i] = append(users[i], h)
		}
	}
	return users
}

// userList names users and how many orders they hold.
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
