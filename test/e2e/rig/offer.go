package rig

import (
	"cmp"
	"testing"
	"time"
)

// Offer is a sale that a test publishes.
type Offer struct {
	Title       string    `json:"title"`
	SubTitle    string    `json:"sub_title"`
	Rules       string    `json:"rules"`
	ShopID      string    `json:"shop_id"`
	PayValue    int64     `json:"pay_value"`
	ActualValue int64     `json:"actual_value"`
	Stock       int64     `json:"stock"`
	BeginAt     time.Time `json:"begin_at"`
	EndAt       time.Time `json:"end_at"`
	ValidUntil  time.Time `json:"valid_until,omitzero"`
	// Although the checklist has problems.
	Force bool `json:"force"`

	LimitPerUser int `json:"limit_per_user,omitempty"`
	// Seconds.
	PayTimeout int            `json:"pay_timeout,omitempty"`
	Segments   int            `json:"segments,omitempty"`
	Entry      map[string]any `json:"entry,omitempty"`
}

// Publish publishes a sale and returns its id.
func (p *Server) Publish(t *testing.T, o Offer) string {
	t.Helper()
	return p.Shop(t).Publish(t, o)
}

// Shop is a server with the token of its admin. Its tests share one login: a second login code would replace the first.
type Shop struct {
	*Server
	Token string
	// Of the server, if the test that started it sets this.
	Stack *Stack
}

// Shop returns the server with the token of the demo's admin.
func (p *Server) Shop(t *testing.T) *Shop {
	t.Helper()
	return &Shop{Server: p, Token: p.Admin(t)}
}

// Publish publishes a sale, even a nonsensical one, and returns its id. By default, it began an hour ago and ends in three
// hours.
func (p *Shop) Publish(t *testing.T, o Offer) string {
	t.Helper()
	o.Force = true
	o.Title = cmp.Or(o.Title, t.Name())

	if o.BeginAt.IsZero() {
		o.BeginAt = time.Now().Add(-time.Hour)
	}
	if o.EndAt.IsZero() {
		o.EndAt = time.Now().Add(3 * time.Hour)
	}

	o.ShopID = cmp.Or(o.ShopID, "1")
	o.PayValue = max(o.PayValue, 100)
	o.ActualValue = max(o.ActualValue, 200)

	return p.Must(t, Post("/admin/vouchers", p.Token, o))["id"].(string)
}

// Change changes a voucher.
func (p *Shop) Change(t *testing.T, sale string, fields map[string]any) {
	t.Helper()
	p.Must(t, Patch("/admin/vouchers/"+sale, p.Token, fields))
}

// Room publishes a sale with a waiting room.
func (p *Shop) Room(t *testing.T, o Offer, entry map[string]any) string {
	t.Helper()
	sale := p.Publish(t, o)
	if entry == nil {
		entry = map[string]any{}
	}

	entry["mode"] = "room"
	p.Change(t, sale, map[string]any{"entry": entry})

	return sale
}

// Passes is the entry of a sale that needs passes, which are valid for an hour.
var Passes = map[string]any{"mode": "pass", "pass_ttl": 3600}
