// Package payment implements payment providers (domain.PaymentProvider): HTTP calls the API of docs/payment-provider.json,
// and Sandbox behaves like a provider without moving money.
package payment
