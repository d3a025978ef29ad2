// Package entry admits buyers to sales: it demands a proof of work if the sale has one, issues passes and checks them.
package entry
