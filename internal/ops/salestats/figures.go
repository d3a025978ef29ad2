package salestats

import (
	"math"
	"slices"
	"time"

	"seckill/internal/domain"
)

// Figures are the results of a sale in orders, and in cents of its currency.
type Figures struct {
	// All orders that were committed.
	Orders int64 `json:"orders"`
	// Paid at some time, refunded or not.
	Paid int64 `json:"paid"`
	// Waiting for the payment, or cancelled without one.
	Unpaid int64 `json:"unpaid"`
	// Refunded or being refunded.
	Refunded int64 `json:"refunded"`
	// Of the orders that are paid or redeemed, even if the money of a redeemed one has gone back.
	Revenue        int64 `json:"revenue"`
	RefundedAmount int64 `json:"refunded_amount"`
	// Paid orders per order, rounded to four decimals.
	Conversion float64 `json:"conversion"`
	// By the time of the order, oldest first; periods without orders are missing. Absent in streams.
	Curve []Sold `json:"curve,omitempty"`
}

// Sold is a period of a sale, with the orders that were placed in it and what they have brought until now.
type Sold struct {
	At      time.Time `json:"at"` // its beginning
	Orders  int64     `json:"orders"`
	Revenue int64     `json:"revenue"`
}

// MaxPeriods bounds the periods of a curve.
const MaxPeriods = 60

// Add adds orders of one status that were placed in the same period.
func (f *Figures) Add(status domain.OrderStatus, period time.Time, orders, amount int64) {
	revenue := int64(0)

	switch status {
	case domain.OrderPaid, domain.OrderRedeemed:
		revenue = amount
		f.Paid += orders
	case domain.OrderRefunding, domain.OrderRefunded:
		f.Paid += orders
		f.Refunded += orders
		f.RefundedAmount += amount
	default:
		f.Unpaid += orders
	}

	f.Orders += orders
	f.Revenue += revenue
	f.Conversion = math.Round(float64(f.Paid)/float64(f.Orders)*1e4) / 1e4

	i, found := slices.BinarySearchFunc(f.Curve, period, func(s Sold, at time.Time) int { return s.At.Compare(at) })
	if !found {
		f.Curve = slices.Insert(f.Curve, i, Sold{At: period})
	}

	f.Curve[i].Orders += orders
	f.Curve[i].Revenue += revenue
}

// Shorten merges the periods, each of which has the given length, into at most MaxPeriods longer ones.
func (f *Figures) Shorten(length time.Duration) {
	if len(f.Curve) == 0 {
		return
	}

	first := f.Curve[0].At
	last := f.Curve[len(f.Curve)-1].At
	length *= (last.Sub(first)/length)/MaxPeriods + 1

	merged := f.Curve[:0]
	for _, s := range f.Curve {
		s.At = first.Add(s.At.Sub(first) / length * length)
		if n := len(merged); n > 0 && merged[n-1].At.Equal(s.At) {
			merged[n-1].Orders += s.Orders
			merged[n-1].Revenue += s.Revenue
		} else {
			merged = append(merged, s)
		}
	}

	f.Curve = merged
}
