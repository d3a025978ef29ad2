package service

import (
	"fmt"
	"strings"
	"time"
)

// differences lists the fields that an admin changed, with old and new values, for the audit log.
func differences(before, after *Voucher) string {
	var all []string
	note := func(field string, was, is any) {
		if was != is {
			all = append(all, fmt.Sprintf("%s: %v -> %v", field, was, is))
		}
	}
	note("shop_id", before.ShopID, after.ShopID)
	note("title", quoted(before.Title), quoted(after.Title))
	note("sub_title", quoted(before.SubTitle), quoted(after.SubTitle))
	note("rules", quoted(before.Rules), quoted(after.Rules))
	note("pay_value", before.PayValue, after.PayValue)
	note("actual_value", before.ActualValue, after.ActualValue)
	note("status", before.Status, after.Status)
	if before.Sale != nil && after.Sale != nil {
		note("begin_at", before.Sale.BeginAt.Format(time.RFC3339Nano), after.Sale.BeginAt.Format(time.RFC3339Nano))
		note("end_at", before.Sale.EndAt.Format(time.RFC3339Nano), after.Sale.EndAt.Format(time.RFC3339Nano))
		note("limit_per_user", before.Sale.LimitPerUser, after.Sale.LimitPerUser)
	}
	return strings.Join(all, "; ")
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }
