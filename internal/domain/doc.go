// Package domain contains the things of a flash sale and the rules that need no dependency: vouchers and their state,
// orders and their moves, payments, admissions, the invariants of a sale, and one error for every kind of refusal.
package domain

import "time"

// Moment returns t as the database stores it: in UTC, truncated to milliseconds.
func Moment(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Earlier returns the earlier one of two times.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
