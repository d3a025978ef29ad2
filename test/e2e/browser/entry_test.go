package browser

import (
	"fmt"
	"testing"

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
