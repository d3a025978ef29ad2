// Package handler is the HTTP layer: routes, JSON encoding, and the one table that maps errors to codes and statuses.
// It contains no rule of a sale.
//
// A handler returns its error; the adapter in error.go writes it as RFC 9457 problem+json.
package handler
