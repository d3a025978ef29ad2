package domain

import "time"

// VoucherFilter selects vouchers. A zero field matches every voucher, except that a zero Status matches only vouchers
// that are on and, with StateEnded, expired ones.
type VoucherFilter struct {
	ShopID int64
	Status VoucherStatus
	State  SaleState
	// Only normal vouchers and sales that have not ended.
	Lasts bool
	// The time at which State and Lasts apply.
	Now  time.Time
	Page Page
}

// Page selects a part of a list that is sorted by descending id.
type Page struct {
	// Only ids below this one; 0 starts at the newest.
	Before int64
	Limit  int
}

// The default and the largest Page.Limit.
const (
	DefaultPageSize = 20
	MaxPageSize     = 100
)

// Matches reports whether v is in the filtered list at now.
func (f *VoucherFilter) Matches(v *Voucher, now time.Time) bool {
	switch {
	case f.Page.Before > 0 && v.ID >= f.Page.Before, f.ShopID > 0 && v.ShopID != f.ShopID:
		return false
	case f.Status != 0 && v.Status != f.Status, f.Status == 0 && v.Unpublished():
		return false
	case f.Status == 0 && f.State != StateEnded && v.Status != VoucherOn:
		return false
	case f.State != "" && v.State(now) != f.State:
		return false
	}

	return !f.Lasts || v.Sale == nil || v.Sale.EndAt.After(now)
}

// SaleTab is a part of the list of vouchers that staff sees.
type SaleTab string

// The tabs. TabAll has every voucher, and is the only one with vouchers that were published without a sale.
const (
	TabRunning  SaleTab = "running"  // on sale, or sold out and not over
	TabUpcoming SaleTab = "upcoming" // that which begins next is first
	TabDrafts   SaleTab = "drafts"
	TabEnded    SaleTab = "ended" // over, or taken off
	TabAll      SaleTab = "all"
)

// SaleTabs are all tabs.
var SaleTabs = []SaleTab{TabRunning, TabUpcoming, TabDrafts, TabEnded, TabAll}

// Tab returns the tab of a voucher beside TabAll, or TabAll if there is none.
func (v *Voucher) Tab(now time.Time) SaleTab {
	switch {
	case v.Status == VoucherDraft:
		return TabDrafts
	case v.Sale == nil:
		return TabAll
	}

	switch v.State(now) {
	case StateUpcoming:
		return TabUpcoming
	case StateEnded:
		return TabEnded
	}
	return TabRunning
}

// StaffFilter selects vouchers whatever their status.
type StaffFilter struct {
	Tab SaleTab
	// A part of the title, or the id; empty: any.
	Search string
	Page   Page
}
