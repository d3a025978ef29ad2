// Package domain contains the things of a flash sale and the rules that need no dependency: vouchers and their state,
// orders and their moves, payments, admissions, the invariants of a sale, and one error for every kind of refusal.
package domain
