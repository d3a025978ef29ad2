package domain

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// changes lists fields with old and new values, for the audit log.
type changes []string

func (c *changes) add(field string, was, is any) {
	if was != is {
		*c = append(*c, fmt.Sprintf("%s: %v -> %v", field, was, is))
	}
}

// Changes lists what an admin changed in a voucher, for the audit log.
func (v *Voucher) Changes(after *Voucher) string {
	var all changes
	before := v
	add := all.add
	add("shop_id", before.ShopID, after.ShopID)
	add("title", quoted(before.Title), quoted(after.Title))
	add("sub_title", quoted(before.SubTitle), quoted(after.SubTitle))
	add("rules", quoted(before.Rules), quoted(after.Rules))
	add("pay_value", before.PayValue, after.PayValue)
	add("actual_value", before.ActualValue, after.ActualValue)
	add("image_id", quoted(before.ImageID), quoted(after.ImageID))
	add("valid_from", orNone(before.ValidFrom), orNone(after.ValidFrom))
	add("valid_until", orNone(before.ValidUntil), orNone(after.ValidUntil))
	add("status", before.Status, after.Status)

	if before.Sale != nil && after.Sale != nil {
		add("begin_at", before.Sale.BeginAt.Format(time.RFC3339Nano), after.Sale.BeginAt.Format(time.RFC3339Nano))
		add("end_at", before.Sale.EndAt.Format(time.RFC3339Nano), after.Sale.EndAt.Format(time.RFC3339Nano))
		add("limit_per_user", before.Sale.LimitPerUser, after.Sale.LimitPerUser)
		add("entry", before.Sale.Entry.String(), after.Sale.Entry.String())
		add("pay_timeout", timeout(before.Sale.PayTimeout), timeout(after.Sale.PayTimeout))
		add("unpaid_limit", orDefault(before.Sale.UnpaidLimit), orDefault(after.Sale.UnpaidLimit))
		add("segments", before.Sale.Segments, after.Sale.Segments)
	}

	return strings.Join(all, "; ")
}

func orDefault(n *int) string {
	if n == nil {
		return "default"
	}
	return strconv.Itoa(*n)
}

func timeout(d time.Duration) string {
	if d == 0 {
		return "default"
	}
	return d.String()
}

func orNone(t *time.Time) string {
	if t == nil {
		return "none"
	}
	return t.Format(time.RFC3339Nano)
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }
