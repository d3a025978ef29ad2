// Package payment talks to payment providers. There is one: a sandbox that behaves like a real one, but moves no money.
// It implements service.PaymentProvider, as a contract with somebody who does would.
package payment
