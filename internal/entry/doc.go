// Package entry admits buyers to sales: it issues passes and checks them.
package entry
