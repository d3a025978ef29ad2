// Package payment implements payment providers (domain.PaymentProvider). The only one is a sandbox, which behaves like
// a real provider but moves no money.
package payment
