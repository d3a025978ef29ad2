// Package handler is the HTTP face of the service: routes, JSON, and the one table that says which error is
// which code and status. It decides nothing about a sale.
//
// A handler returns its error; the adapter in error.go answers it as RFC 9457 problem+json.
package handler
