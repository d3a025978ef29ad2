package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// orderWithPass checks the button of a sale that needs passes: it gets a pass first, gets another one once if the
// server refuses it, and then shows the reason.
func orderWithPass(t *testing.T, p *rig.Shop, visit func(string) *visitor) {
	var sales [4]string
	for i := range sales {
		sales[i] = p.Publish(t, rig.Offer{Stock: 5})
		p.Must(t, rig.Patch("/admin/vouchers/"+sales[i], p.Token, rig.PassMode))
	}
	first, second, third, fourth := sales[0], sales[1], sales[2], sales[3]
	v := visit(p.URL)
	v.loginNewUser()
	press := func(sale, done string) (entries, orders int) {
		v.until(canBuy(sale))
		v.click(buyOf(sale))
		v.waitForState(sale, done)
		return evaluate[int](v.tab, fmt.Sprintf(`count(%q)`, sale+"/entry")), evaluate[int](v.tab, fmt.Sprintf(`count(%q)`, sale+"/orders"))
	}
	entries, orders := press(first, "bought")
	require.Equal(t, []int{1, 1}, []int{entries, orders})

	v.run(`window.answer = (a) => a.endsWith(%q) && count(%q) === 1 && problem(403, "entry_required")`, second+"/orders", second+"/orders")
	entries, orders = press(second, "bought")
	require.Equal(t, []int{2, 2}, []int{entries, orders})

	v.run(`window.answer = (a) => a.endsWith(%q) && problem(403, "entry_required")`, third+"/orders")
	entries, orders = press(third, "refused")
	require.Equal(t, []int{2, 2}, []int{entries, orders})
	v.reads(card(third), "Your entry pass was not accepted")

	v.run(`window.answer = (a) => a.endsWith(%q) && problem(409, "unpaid_limit")`, fourth+"/entry")
	entries, orders = press(fourth, "refused")
	require.Equal(t, []int{1, 0}, []int{entries, orders})
	v.reads(card(fourth), "Too many of your orders are unpaid")
	v.run(`window.answer = (a) => a.endsWith(%q) && problem(429, "rate_limited", { "Retry-After": "600" })`, fourth+"/entry")
	entries, _ = press(fourth, "refused")
	require.Equal(t, 2, entries, "the page does not wait for ten minutes")
	v.reads(card(fourth), "Too many requests")
	v.click(`[data-do="language"]`)
	v.reads(card(third), "入场凭证已失效")
	v.reads(card(fourth), "请求太频繁")
}

// passesInConsole creates a sale with passes, changes it and revokes its passes.
func passesInConsole(t *testing.T, c *consoleTest) {
	v := c.visit(c.URL, "en")
	v.enter("/console/new", c.phone)
	v.choose(`form[data-form="make"] [name="entry.mode"]`, "pass")
	for field, value := range map[string]string{
		"title": t.Name(), "shop_id": "1", "pay_value": "1", "actual_value": "2", "stock": "3",
		"entry.pass_ttl": "3601", "pay_timeout": "0", "unpaid_limit": "2", "begin_at": local(time.Now().Add(-time.Minute)),
	} {
		v.fill("make", field, value)
	}
	v.submit("make")
	v.reads(fieldError("make", "entry.pass_ttl"), "between 1 and 3,600")
	v.reads(fieldError("make", "pay_timeout"), "between 1 and 86,400")
	v.fill("make", "entry.pass_ttl", "30")
	v.fill("make", "pay_timeout", "")
	v.submit("make")
	sale := v.publishDraft()
	v.reads(`[data-fact="entry.mode"]`, "With a pass")
	entry := func() any { return c.Must(t, rig.Get("/vouchers/"+sale, ""))["entry"] }
	require.Equal(t, map[string]any{"mode": "pass", "pass_ttl": 30.0}, entry())
	v.reads(`[data-fact="unpaid_limit"]`, "2")

	token := c.LoginToken(t, rig.NewPhone())
	pass := rig.Answered(t, func() (string, error) { return c.Enter(t.Context(), token, sale) })
	v.click(`[data-do="revoke"]`)
	v.confirm()
	v.reads("main", "All passes are void")
	c.Refuses(t, "entry_required", token, sale, pass)

	v.click(editLink(sale))
	v.fill("change", "unpaid_limit", "")
	v.submit("change")
	v.reads(fieldError("change", "unpaid_limit"), "Please fill this in")
	v.fill("change", "unpaid_limit", "0")
	v.fill("change", "pay_timeout", "90")
	v.fill("change", "entry.mode", "open")
	v.submit("change")
	v.reads("main", "Saved.")
	stored := c.Must(t, rig.Get("/vouchers/"+sale, ""))
	require.Equal(t, []any{90.0, 0.0}, []any{stored["pay_timeout"], stored["unpaid_limit"]})
	require.Equal(t, map[string]any{"mode": "open"}, entry())
	v.click(`main header a[href="/console/sales/` + sale + `"]`)
	v.reads(`[data-fact="entry.mode"]`, "Open")
	v.until(`!document.querySelector('[data-do="revoke"]').checkVisibility()`)
}
