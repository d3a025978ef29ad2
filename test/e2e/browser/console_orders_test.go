package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

func (c *scene) paidOrder(t *testing.T, phone, sale string) (order, token string) {
	t.Helper()
	token = c.LoginToken(t, phone)
	order = c.Buy(t, token, sale)
	c.Must(t, rig.Pay(order, token))
	c.WaitFor(t, token, order, "paid")
	return order, token
}

const codeField = "form[data-form=redeem] [name=code]"

// redeemedAtCounter checks that a code shows what it stands for before one press redeems it, although the voucher has been
// changed and taken down since it was bought, that the list follows, that a used code says when and by which member of the
// staff it was redeemed, and that a mistake can be undone: all of it without a mouse.
func redeemedAtCounter(t *testing.T, c *scene) {
	phone, sale := rig.NewPhone(), c.Publish(t, rig.Offer{Title: "Two coffees", Stock: 5})
	o, token := c.paidOrder(t, phone, sale)
	paid := c.Must(t, rig.Get("/orders/"+o, token))
	code := paid["redeem_code"].(string)
	c.Change(t, sale, map[string]any{"title": "Tea", "rules": "Mondays only", "status": "off"})
	v := c.open("/console/redeem")
	v.tabTo(`[data-do="enter"]`)
	v.key(kb.Enter)
	v.loginByKeyboard(c.phone)
	v.until(hasFocus(codeField))
	v.key(strings.ToLower(code) + kb.Enter)
	v.reads("[data-redemption]", "Two coffees", domain.MaskPhone(phone), o, "Paid")
	require.NotContains(t, v.text("[data-redemption]"), "Mondays")
	c.WaitFor(t, token, o, "paid") // nothing has happened yet
	v.until(hasFocus(`[data-do="use-code"]`))
	described := `document.activeElement.getAttribute("aria-describedby").split(" ").map((id) => document.getElementById(id).innerText).join()`
	require.Equal(t, paid["shop_name"].(string)+",Two coffees", evaluate[string](v.tab, described))
	v.key(kb.Enter)
	v.reads("main", "“Two coffees” has been redeemed (order "+o+").")
	v.reads("#live", "“Two coffees” has been redeemed")
	v.until(hasFocus(codeField)) // for the next customer
	c.WaitFor(t, token, o, "redeemed")
	v.goTo("/console/orders?voucher_id=" + sale)
	v.reads(".listing tbody tr", "Redeemed", "Two coffees", domain.MaskPhone(phone))
	v.click(fmt.Sprintf(`a[data-order=%q]`, o))
	v.until(`document.querySelector("[data-status=redeemed]")`)
	v.reads("main", "sandbox pay_") // its payment
	v.reads(".listing table", "Paid", "Redeemed", "Payment provider")
	require.NotContains(t, v.text("main"), code, "only the buyer sees the code")
	v.reads("[data-undo]", "Undo the redemption")
	v.goTo("/console/redeem")

	v.until(hasFocus(codeField))
	v.key(code + kb.Enter)
	v.reads("[data-redemption] [role=alert]", "Already redeemed on", "by "+domain.MaskPhone(c.phone))
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll('[data-do="use-code"]').length`))
	v.tabTo("[data-undo] summary")
	v.key(kb.Enter)
	v.tabTo("[data-undo] [name=reason]")
	v.key("the wrong guest" + kb.Enter)
	v.reads("#live", "The redemption of order "+o+" has been undone.")
	c.WaitFor(t, token, o, "paid")

	// Another device has redeemed a code that this one shows. The next scan replaces that as well.
	v.until(hasFocus(codeField))
	v.key(code + kb.Enter)
	v.until(hasFocus(`[data-do="use-code"]`))
	c.Must(t, rig.Post("/admin/redeem", c.Token, map[string]any{"code": code}).Keyed("redeem "+code))
	v.key(kb.Enter)
	v.reads("[data-redemption] [role=alert]", "Already redeemed on")
	v.until(hasFocus(codeField))
	v.key("next")
	require.Equal(t, "next", v.fieldValue("redeem", "code"))
}

// findOrders finds orders by what their buyer can tell, and keeps the search in the address, but no phone number. It cancels
// one of them.
func findOrders(t *testing.T, c *scene) {
	phone, title := rig.NewPhone(), "Picnic "+rig.NewPhone()
	masked := domain.MaskPhone(phone)
	first, second := c.Publish(t, rig.Offer{Title: title, Stock: 5}), c.Publish(t, rig.Offer{Stock: 5})
	paid, token := c.paidOrder(t, phone, first)
	unwanted := c.Buy(t, token, second)
	v := c.enter("/console/orders")
	none := func(fields ...string) {
		v.send("search", fields...)
		v.reads("main", "No orders match.")
	}
	refused := func(field, message string, fields ...string) {
		v.send("search", fields...)
		v.reads(fieldError("search", field), message)
	}
	both := func() { v.until(`document.querySelectorAll("tbody [data-order]").length === 2`) }
	only := func(fields ...string) {
		v.send("search", fields...)
		v.until(`document.querySelector(".listing")?.ariaBusy !== "true" && document.querySelector('a[data-order=%q]')`, paid)
		v.reads("[data-count]", "1 in total")
	}

	refused("phone", "Not a phone number", "phone", "12")
	require.False(t, evaluate[bool](v.tab, `document.querySelector(".listing .error-box").checkVisibility()`), "the error is beside the field")
	none("phone", rig.NewPhone())
	v.send("search", "phone", phone)
	both()
	v.reads("table", masked)
	none("status", "refunded")

	require.NotContains(t, evaluate[string](v.tab, `location.href`), phone, "URLs end up in proxy logs")
	v.click(`#nav a[href="/console/orders"]`)
	v.until(`document.querySelector("form[data-form=search] [name=phone]").value === ""`)
	v.run(`history.back()`)
	v.until(`document.querySelector("form[data-form=search] [name=phone]").value === %q`, phone)
	v.reads("main", "No orders match.")
	v.do(chromedp.Reload()) // keeps the search
	v.reads("main", "No orders match.")
	require.Equal(t, phone, v.fieldValue("search", "phone"))
	v.send("search", "status", "")
	both()

	v.click(fmt.Sprintf(`a[data-order=%q]`, unwanted))
	v.until(`document.querySelector("[data-status=pending_payment]")`)
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll('[data-do="redeem"], [data-do="refund"]').length`), "only possible actions are offered")
	v.reads("[data-phone]", masked)
	v.click(`[data-do="reveal"]`)
	v.reads("[data-phone]", phone)
	v.asks("cancel", masked)
	require.Equal(t, "pending_payment", evaluate[string](v.tab, `document.querySelector("[data-status]").dataset.status`))
	v.does("cancel")
	v.until(`document.querySelector("[data-status=cancelled]")`)
	v.reads("main", "Nothing can be done")
	v.reads("table", "Staff")
	c.WaitFor(t, token, unwanted, "cancelled")

	v.goTo("/console/orders")
	only("title", strings.ToUpper(title))
	end := phone[len(phone)-4:]
	only("phone", end)
	only("phone", "\u202d"+end[:2]+" "+end[2:]+"\u202c") // pasted
	require.Contains(t, v.at(), "phone_end="+end)
	today := evaluate[string](v.tab, `(d => [d.getFullYear(), d.getMonth() + 1, d.getDate()].map((n) => String(n).padStart(2, "0")).join("-"))(new Date())`)
	only("from", today, "to", today)
	none("from", "2020-01-01", "to", "2020-01-02")
	refused("to", "Must not be before", "from", "2020-01-03")
	v.goTo("/console/orders")
	order := c.Must(t, rig.Get("/admin/orders/"+paid, c.Token))
	only("payment_ref", order["payments"].([]any)[0].(map[string]any)["provider_ref"].(string))
	require.Equal(t, http.StatusNoContent, c.Do(t, rig.Request{Method: http.MethodDelete, Path: "/api/v1/me", Token: token}).Status)
	v.click(fmt.Sprintf(`a[data-order=%q]`, paid))
	v.asks("refund", "of "+order["user_id"].(string)+"?") // whose account is deleted
}

// filesInBrowser saves the lists as files, for spreadsheet programs of the visitor's region.
func filesInBrowser(t *testing.T, c *scene) {
	sale := c.Publish(t, rig.Offer{Title: "Exported", Stock: 5})
	o, _ := c.paidOrder(t, rig.NewPhone(), sale)
	open := func(language string) *visitor {
		v := visit(t, c.URL, language, keepFiles)
		v.enter("/console/orders?voucher_id="+sale, c.phone)
		return v
	}
	v := open("de-DE")
	save := func(file, want string) {
		v.run(`window.file = ""`)
		v.click(fmt.Sprintf(`[data-do="download-%s"]`, file))
		v.until(`window.file.includes(%q)`, want)
	}
	save("orders", "Order;Sale ID;Sale")
	require.Contains(t, evaluate[string](v.tab, `window.file`), ";1,00;CNY;")
	v = open("zh-CN")
	save("orders", "订单号,活动 ID,活动")
	v.reads(`[data-do="download-orders"]`, "该活动")
	require.Contains(t, evaluate[string](v.tab, `window.file`), ",已支付,1.00,CNY,")
	require.Regexp(t, `^orders-\d{4}-\d\d-\d\d\.csv$`, evaluate[string](v.tab, `window.named`))
	require.Equal(t, 2, strings.Count(evaluate[string](v.tab, `window.file`), "\n"), "a header and the order of the sale")
	require.Contains(t, evaluate[string](v.tab, `window.file`), o+"\t,")
	save("payments", o)
	v.goTo("/console/audit?voucher_id=" + sale)
	save("audit", "create_voucher")
	v.goTo("/console/audit")
	v.send("filter", "order_id", o) // the buyer and the provider changed it, not the staff
	v.until(`document.querySelector('tbody a[href="/console/orders/%s"]')`, o)
	v.goTo("/console/audit?kind=request")
	save("requests", "/api/v1/admin/orders.csv")
	v.goTo("/console/orders?status=refunded")
	v.reads(`[data-do="download-orders"]`, "全部") // whatever their status
	save("orders", o)
}

// refundedAtOnce refunds all paid orders of a sale that is over, after a confirmation with their number and sum.
func refundedAtOnce(t *testing.T, c *scene) {
	sale := c.Publish(t, rig.Offer{Title: "Cancelled event", Stock: 9})
	var orders []string
	var tokens []string
	for range 3 {
		o, token := c.paidOrder(t, rig.NewPhone(), sale)
		orders, tokens = append(orders, o), append(tokens, token)
	}
	v := c.enter("/console/sales/" + sale)
	v.reads("h1", "Cancelled event")
	require.False(t, evaluate[bool](v.tab, `document.querySelector('[data-do="refund-all"]').checkVisibility()`), "the units would be sold again")
	c.Change(t, sale, map[string]any{"status": "off"})
	v.until(`document.querySelector('[data-do="refund-all"]').checkVisibility()`)
	total := 3 * c.Must(t, rig.Get("/orders/"+orders[0], tokens[0]))["amount"].(float64) / 100
	v.asks("refund-all", "Refund 3 paid orders of “Cancelled event”", fmt.Sprintf("%.0f in total?", total))
	for i, o := range orders {
		c.WaitFor(t, tokens[i], o, "paid")
	}
	v.run(`window.answer = (a) => a.endsWith("/refunds") && a.startsWith("POST") && problem(503, "unavailable")`)
	v.does("refund-all")
	v.reads(errorBox, "Submit it again")
	require.NotContains(t, v.text("main"), "Keep this page open")
	v.run(`window.answer = null`)
	v.does("refund-all")
	v.reads("main", "3 refunds requested.")
	for i, o := range orders {
		c.WaitFor(t, tokens[i], o, "refunded")
	}
	v.until(`!document.querySelector('[data-do="refund-all"]').checkVisibility()`)

	v.reads(".takings", "Paid, with refunded ones", "3 (¥")
	v.reads(`[data-plot="sold"]`, "Orders placed")

	// It is over for good, so nothing is to be fixed or published.
	c.Change(t, sale, map[string]any{"status": "expired"})
	v.goTo("/console/sales/" + sale)
	v.until(`document.querySelector("[data-live]")?.dataset.state === "live"`)
	v.reads("main .head .chip", "Ended")
	buyer := c.open("/sales/" + sale)
	buyer.reads(".clock", "Ended")
	require.Equal(t, "Ended", strings.TrimSpace(buyer.text(".clock"))) // its planned end is to come
	require.False(t, evaluate[bool](v.tab, `["[data-check]", '[data-do="publish"]', '[data-do="refund-all"]'].some((s) => document.querySelector(s)?.checkVisibility())`))
}

// TestConsoleAlerts checks that a violated invariant, a dead letter and a server that is down are visible on every page,
// and that a buyer's open page follows the replay of a dead letter. Another one is discarded.
func TestConsoleAlerts(t *testing.T) {
	env.FullParallel(t)
	s := rig.RealStack(t).WithAdmins().In("queue").With(rig.EnvRedeliver+"=300ms", rig.EnvEvery+"=500ms")
	p := s.Serve(t).Shop(t)
	f := startFront(t, p.URL)
	title := "Poisoned " + rig.NewPhone()
	sale := p.Publish(t, rig.Offer{Title: title, Stock: 5})
	cure := rig.Poison(t, s, "NEW.user_id") // of everyone
	buyer := visit(t, f.URL, "en")
	buyer.goTo("/sales/" + sale)
	buyer.press(sale)
	buyer.login(rig.NewPhone())
	letters := func() []map[string]any { return p.Items(t, rig.Get("/admin/dead-letters", p.Token)) }
	rig.Eventually(t, "a dead letter", func() bool { return len(letters()) > 0 })
	letter := letters()[0]
	buyer.goTo("/orders")
	buyer.orderIs("failed")

	v := visit(t, f.URL, "en")
	v.enter("/console", rig.AdminPhone(0))
	v.reads("[data-home] .todo", "Dead letters: 1")
	s.Exec(t, "UPDATE seckill_vouchers SET stock = stock + 3 WHERE voucher_id = "+sale)
	v.reads("[data-home] .todo", "“"+title+"”: 3 units too many in stock.")
	v.click(`#nav a[href="/console/sales"]`)
	v.reads("[data-alerts]", "“"+title+"”: 3 units too many in stock.")
	v.until(`[...document.querySelectorAll("tbody tr")].some((tr) => tr.querySelector('a[href="/console/sales/%s"]') && tr.innerText.includes("Invariant broken"))`, sale)
	v.system("/console/audit")
	v.reads("[data-alerts]", "Dead letters: 1")
	v.click(fmt.Sprintf(`[data-alerts] a[href="/console/sales/%s"]`, sale))
	v.judged("I3", "broken")
	v.reads(`[data-invariant="I3"]`, "✕", "BROKEN")
	v.reads("[data-repair]", "What to do", "seckill verify")
	v.click("[data-technical] summary")
	v.reads("[data-live]", "Queue depth (all sales)", "Oldest queued order (all sales, s)", "Dead letters (all sales)")
	v.judged("I1", "holds")

	f.Cut()
	v.reads("[data-alerts]", "No answer from the server since")
	v.reads("[data-stale]", "No data since")
	v.judged("I1", "unknown") // not green
	v.judged("I3", "broken")
	f.Restore()
	v.until(`!document.querySelector("[data-alerts]").innerText.includes("No answer")`)
	v.judged("I1", "holds")
	v.until(`document.querySelector("[data-live]").dataset.state === "live" && !document.querySelector("[data-stale]").checkVisibility()`)
	require.Equal(t, "0", evaluate[string](v.tab, `document.querySelector("[data-live]").dataset.holes`), "what happened meanwhile is there")

	s.Exec(t, "UPDATE seckill_vouchers SET stock = stock - 3 WHERE voucher_id = "+sale)
	cure()
	v.judged("I3", "holds")
	v.reads("#live", "Conservation: holds") // without a reload
	v.until(`!document.querySelector("[data-repair]").checkVisibility()`)
	v.click(`[data-alerts] a[href="/console/dead-letters"]`)
	v.reads("table", "poison")
	v.click(`tbody a[href*="user_id"]`)
	v.until(`document.querySelector("[data-status=failed]")`) // a failed order that is not in the database is shown
	v.reads("main", "Something went wrong on our side.")      // its reason
	v.system("/console/dead-letters")
	v.click(fmt.Sprintf(`[data-letter=%q] [data-do="replay"]`, letter["id"]))
	v.reads(dialog, fmt.Sprint(letter["order_id"]))
	v.confirm()
	v.reads("main", "Returned to the queue", "No dead letters.")
	buyer.orderIs("pending_payment") // without a reload

	cure = rig.Poison(t, s, "NEW.user_id")
	rig.PlacePoisoned(t, p.Server, sale, p.LoginToken(t, rig.NewPhone()), p.Token)
	cure()
	v.click(`[data-do="refresh"]`)
	v.click(`[data-letter] [data-do="discard"]`)
	v.confirm()
	v.reads("main", "No dead letters.")
	require.Empty(t, letters())
	v.system("/console/audit")
	v.reads("table", "Dead letter replayed")

	// A refund that the provider does not make, and a notice that it could not say clearly.
	order := fmt.Sprint(letter["order_id"])
	s.Exec(t, "INSERT INTO payments (order_id, provider, provider_ref, amount, status, created_at, updated_at, next_try_at, refund_tries, refund_error) "+
		"VALUES ("+order+", 'sandbox', 'pay_twice', 8000, 4, NOW(3), NOW(3), NOW(3) + INTERVAL 1 DAY, 7, 'card closed')")
	s.Exec(t, "INSERT INTO payment_notices (provider, source, content, provider_ref, reason, body, received_at, last_at) "+
		"VALUES ('sandbox', 'notice', REPEAT('x', 32), 'pay_odd', 'status: must be known', '{}', NOW(3), NOW(3))")
	v.reads("[data-alerts]", "The provider has not refunded order "+order+" in 7 tries: card closed")
	v.click(fmt.Sprintf(`[data-alerts] a[href="/console/orders/%s"]`, order))
	v.reads("main", "7 tries: card closed")
	v.send("return-outside", "reason", "bank transfer")
	v.confirm()
	v.reads("main", "Recorded.", "Returned outside the provider")
	v.click(`[data-alerts] a[href="/console/notices"]`)
	v.reads("tbody tr", "pay_odd")
	v.click("[data-notice] summary")
	v.send("close-1", "reason", "a test of the provider")
	v.reads("main", "No open notices.")
	v.until(`!document.querySelector("[data-alerts]").innerText.match(/refund|notices/)`)
	s.Verify(t)
}

const advanced = `[data-group="advanced"] summary`

// redeemerPhone is the redeemer of a demo.
const redeemerPhone = "13800000012"

func (b *tab) system(path string) {
	b.t.Helper()
	b.click("#nav summary")
	b.click(fmt.Sprintf(`#nav a[href=%q]`, path))
}

// figuresInBrowser: the first page has the money of the running sales, and what is to be done. The page of a sale has figures and
// plots, also of what happened before it was opened. TestConsoleAlerts shows a violated invariant.
func figuresInBrowser(t *testing.T, c *scene) {
	s := c.Stack.Fresh(t).WithAdmins()
	p := s.Serve(t).Shop(t)
	sale := p.Publish(t, rig.Offer{Title: "Two coffees", Stock: 5, PayValue: 1250, ActualValue: 2000})
	for i, token := range s.Tokens(t, 8) {
		o := p.Once(t, rig.Purchase(sale, token)).Order()
		if i < 2 {
			p.Must(t, rig.Pay(o, token))
			p.WaitFor(t, token, o, "paid")
		}
	}
	soon := p.Publish(t, rig.Offer{Title: "Soon", Stock: 1, BeginAt: time.Now().Add(time.Hour), EndAt: time.Now().Add(9 * time.Hour)})
	for i := range 5 {
		p.Publish(t, rig.Offer{Title: "Later", Stock: 1, BeginAt: time.Now().Add(time.Duration(i+2) * time.Hour), EndAt: time.Now().Add(9 * time.Hour)})
	}
	draft := p.Must(t, rig.Post("/admin/vouchers", p.Token, map[string]any{
		"status": "draft", "title": "Breakfast", "begin_at": "2019-01-01T00:00:00Z", "end_at": "2019-01-02T00:00:00Z", "valid_until": "2019-01-03T00:00:00Z",
	}))["id"].(string)

	v := visit(t, p.URL, "en")
	v.enter("/console", c.phone)
	running := fmt.Sprintf(`.running [data-voucher=%q]`, sale)
	v.reads(running, "Two coffees", "¥25", "5 of 5")
	v.reads(running+` [data-fact="money.paid"]`, "2")
	v.reads(running+` [data-fact="money.unpaid"]`, "3")
	v.reads(running+` [data-fact="money.conversion"]`, "40%")
	v.reads(".todo", "Breakfast – lacks a shop, a face value, a validity that lasts, a time, units")
	v.until(`document.querySelector('.briefly a[href="/console/sales/%s"]')`, soon)
	require.Equal(t, 5, evaluate[int](v.tab, `document.querySelector(".briefly").children.length`))
	require.True(t, evaluate[bool](v.tab, `document.querySelector(".todo").getBoundingClientRect().bottom < document.querySelector(".running").getBoundingClientRect().top`))
	v.legible(t, "home")

	// What is new leaves the focus where it is, and a failed read is not the last one. The network that is back ends a pause.
	v.tabTo(running + " a")
	p.Change(t, draft, map[string]any{"title": "Brunch"})
	v.run(`window.answer = (a) => a.includes("tab=drafts") && problem(503, "unavailable"); dispatchEvent(new Event("online"))`)
	v.reads(errorBox, "temporarily unavailable")
	v.run(`window.answer = null; dispatchEvent(new Event("online"))`)
	v.reads(".todo", "Brunch")
	v.until(`!document.querySelector(%q)`, errorBox)
	require.True(t, evaluate[bool](v.tab, hasFocus(running+" a")))

	// The page of the sale begins with the same figures. The list of drafts is not read there.
	v.click(running + " a")
	v.reads("h1", "Two coffees")
	v.run(`window.read = count("tab=drafts"); dispatchEvent(new Event("online")); await new Promise((done) => setTimeout(done))`)
	require.True(t, evaluate[bool](v.tab, `count("tab=drafts") === read`))
	v.reads(".live .panel", "¥25", "5 of 5")
	v.asks("unpublish", "3 unpaid orders and 2 paid orders stay valid")
	v.until(`document.querySelector("[data-live]")?.dataset.state === "live"`)
	v.click("[data-technical] summary")
	v.until(`document.querySelector('[data-plot="rate"] .canvas').ariaLabel.includes("Orders 5, Rejected 3.")`)
	v.until(`document.querySelector('[data-plot="sold"] .canvas').ariaLabel.includes("Placed 5.")`)
	v.until(`document.querySelector('[data-plot="left"] .legend li b')?.innerText === "0"`)
	for _, invariant := range []string{"I1", "I2", "I3", "I5"} {
		v.judged(invariant, "holds")
		v.reads(fmt.Sprintf(`[data-invariant=%q]`, invariant), "✓", "holds")
	}
	v.until(`document.querySelector('%s')?.innerText === "3"`, fact("pending_payment"))
	v.until(`document.querySelector('%s')?.innerText === "0"`, fact("database"))
	v.until(`document.querySelector('[data-plot="stock"] .legend li b')?.innerText === "0"`)
	v.until(`document.querySelector('[data-plot="orders"] .canvas').ariaLabel.includes("Committed 5.")`)
	v.until(`document.querySelector('[data-plot="refusals"] .canvas').ariaLabel.includes("Sold out 3.")`)
	v.until(`document.querySelectorAll(".live tbody tr").length === 10`)
	live := `document.querySelector("[data-live]").dataset`
	require.Equal(t, "0", evaluate[string](v.tab, live+".holes"))
	v.until(`[...document.querySelectorAll(".plot canvas")].filter((c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(Boolean)).length === 8`) // the queue has a plot of its own, in lane queue

	// How the hour of the server joins the seconds that the page receives: a period counts once.
	orders := func(seconds, since string) []int {
		return evaluate[[]int](v.tab, fmt.Sprintf(`import(document.querySelector("script[src*='main.']").src.replace("main.bundle.js", "live.js")).then(({ hourOf }) => {
			const second = (n) => ({ outcomes: {}, settled: { ok: n }, stock: 1 });
			const server = new Map([[1000, { orders: 8, refused: 0, stock: 1 }], [1010, { orders: 9, refused: 0, stock: 1 }]]);
			return hourOf(new Map(%s), server, %s).map((p) => p.orders).slice(-3);
		})`, seconds, since))
	}
	require.Equal(t, []int{0, 8, 9}, orders(`[]`, "500"), "the server's, without seconds")
	require.Equal(t, []int{0, 8, 9}, orders(`[[1014, second(2)]]`, "500"), "more was reported before these seconds")
	require.Equal(t, []int{0, 8, 2}, orders(`[[1014, second(2)]]`, "1013.5"), "nothing was reported before")
	require.Equal(t, []int{8, 9, 7}, orders(`[[1014, second(2)], [1020, second(3)], [1021, second(4)]]`, "500"))

	p.Must(t, rig.Post("/admin/vouchers/"+sale+"/stock", p.Token, map[string]any{"delta": 3, "reason": "more came in"}))
	v.click(`#nav a[href="/console"]`)
	v.reads(running, "5 of 8")
	v.click(fmt.Sprintf(`.todo a[href="/console/sales/%s"]`, draft))
	v.checks("shop", "broken", "validity", "broken")
}

// draftsInBrowser: a title is enough for a draft, which the list shows at once, and which can be deleted.
func draftsInBrowser(t *testing.T, c *scene) {
	title := "An idea " + rig.NewPhone()
	v := c.enter("/console/sales")
	v.click(`a[href="/console/new"]`)
	// A draft needs no time. What the form and its preview understand is what is sent.
	v.send("make", "entry.mode", "room", "entry.rate", "１０００", "title", title, "currency", "kwd", "pay_value", "1,000",
		"begin_at", "", "end_at", "")
	v.reads(fieldError("make", "pay_value"), "without separators")
	v.fill("make", "pay_value", "1000")
	v.reads("[data-preview]", "1,000")
	v.submit("make")
	v.reads("main .head .chip", "Draft")
	v.reads("[data-preview]", title)
	v.checks("shop", "broken", "price", "broken", "stock", "broken")
	draft := v.at()[len("/console/sales/"):]
	made := c.Must(t, rig.Get("/vouchers/"+draft, c.Token))
	require.EqualValues(t, 1_000_000, made["pay_value"])
	require.EqualValues(t, 1000, made["entry"].(map[string]any)["rate"])

	// The preview follows the form. A voucher may cost nothing.
	v.fill("change", "pay_value", "0")
	v.reads("[data-preview]", "KWD\u00a00")
	v.fill("change", "pay_value", "6")
	v.fill("change", "actual_value", "12")
	v.fill("change", "shop_id", "1")
	v.reads("[data-preview]", "KWD\u00a06", "KWD\u00a012", "−50%")
	v.click(`[data-do="language"]`)
	v.reads("[data-preview] .off", "5 折")
	v.click(`[data-do="language"]`)
	v.send("change", "valid_from", "2098-05-01T10:00", "valid_until", "2098-05-01T09:00")
	v.reads(fieldError("change", "valid_until"), "after the start")
	v.send("change", "valid_until", "2098-06-01T09:00")
	v.reads("form[data-form=change]", "Saved.")
	v.checks("price", "holds")
	stored := c.Must(t, rig.Get("/vouchers/"+draft, c.Token))
	require.Contains(t, stored["valid_from"], "2098-05-01")
	require.Contains(t, stored["valid_until"], "2098-06-01")
	v.send("change", "valid_from", "")
	rig.Eventually(t, "the change", func() bool { return c.Must(t, rig.Get("/vouchers/"+draft, c.Token))["valid_from"] == nil })

	// A list of several pages is as long as before when its tab is shown again.
	another := func() {
		c.Must(t, rig.Post("/admin/vouchers", c.Token, map[string]any{"status": "draft", "title": title}))
	}
	for range 30 {
		another()
	}
	v.goTo("/console/sales?" + url.Values{"tab": {"drafts"}, "search": {title}}.Encode())
	v.click(`[data-do="more"]`)
	v.until(hasFocus(fmt.Sprintf(`tbody a[href="/console/sales/%s"]`, draft))) // which was on the button, and hides with it
	another()
	v.run(`document.dispatchEvent(new Event("visibilitychange"))`)
	v.until(`document.querySelectorAll("tbody tr").length === 32`)

	v.goTo("/console/sales/" + draft)
	v.asks("delete", title)
	v.does("delete")
	v.until(`location.search === "?tab=drafts" && document.querySelector(".listing")?.ariaBusy !== "true" && !document.querySelector('tbody a[href="/console/sales/%s"]')`, draft)
	require.Equal(t, http.StatusNotFound, c.Do(t, rig.Get("/vouchers/"+draft, c.Token)).Status)
	v.goTo("/console/audit")
	v.reads("table", "Draft deleted", title)
}

// cashierLands: the only page of a cashier is the first one, whatever address is opened. It refuses a code of another shop, and one that
// is not valid yet or any more, with the reason, and reads codes by the camera.
func cashierLands(t *testing.T, c *scene) {
	o, token := c.paidOrder(t, rig.NewPhone(), c.Publish(t, rig.Offer{Title: "Soup", Stock: 5}))
	paid := c.Must(t, rig.Get("/orders/"+o, token))
	code, shop := paid["redeem_code"].(string), paid["shop_name"].(string)
	const refuses = `window.answer = (a, o, real) => a.endsWith("/admin/redeem/preview") && real().then(async (answer) => {
		if (window.elsewhere) return new Response(JSON.stringify({ code: "forbidden", status: 403, shop_name: "Tea: house" }), { status: 403 });
		const body = await answer.json();
		Object.assign(body.order, window.validity);
		return new Response(JSON.stringify(body));
	})`
	v := visit(t, c.URL, "en", refuses, fmt.Sprintf(`{
		window.BarcodeDetector = class {
			static getSupportedFormats = async () => ["qr_code"];
			detect = async () => [{ rawValue: %q }];
		};
		Object.defineProperty(navigator, "mediaDevices", { value: {
			enumerateDevices: async () => [{ kind: "videoinput" }],
			getUserMedia: async () => { // as a camera, with a picture that moves
				const canvas = Object.assign(document.createElement("canvas"), { width: 16, height: 9 });
				const brush = canvas.getContext("2d");
				setInterval(() => brush.fillRect(0, 0, 16, 9), 50);
				return (window.stream = canvas.captureStream());
			},
		} });
	}`, code))
	v.enter("/console", redeemerPhone)
	v.reads("h1", "Redeem")
	require.Equal(t, "/console/redeem", v.at())
	require.Equal(t, "Redeem", v.text("#nav"))
	v.until(hasFocus(codeField)) // of a scanner, which types where the focus is
	v.goTo("/console/audit")
	v.until(`location.pathname === "/console/redeem" && document.querySelector("form[data-form=redeem]")`)
	v.accessible(t, "redeem")

	refused := func(js string, want ...string) {
		v.run("%s", js)
		v.send("redeem", "code", code)
		v.reads("[data-redemption]", want...)
		v.until(`document.querySelector("[data-redemption]").dataset.verdict === "no" && !document.querySelector('[data-do="use-code"]')`)
	}
	refused(`window.elsewhere = true`, "Tea: house", "This is a voucher of another shop.")
	refused(`window.elsewhere = false; window.validity = { valid_from: "2098-05-01T00:00:00Z", valid_until: "2099-05-01T00:00:00Z" }`, "Soup", "Not valid before", "2098", "2099")
	refused(`window.validity = { valid_until: "2020-05-01T00:00:00Z" }`, "Soup", "Expired on", "2020")
	v.legible(t, "refused")

	v.run(`window.validity = { valid_from: "2020-05-01T00:00:00Z", valid_until: "2099-05-01T00:00:00Z" }`)
	v.send("redeem", "code", code)
	v.until(hasFocus(`[data-do="use-code"]`))

	// A scan replaces the code before, and its Enter presses no button. The last one that comes while another code is being checked is
	// the next to be checked.
	v.run(`const { answer } = window;
		window.answer = (a, o, real) => o.body?.includes("slow") ? new Promise((done) => (window.late = () => done(problem(503, "unavailable")))) : answer(a, o, real)`)
	v.key("slow" + kb.Enter)
	v.until(`window.late`)
	v.key("impatient" + kb.Enter + code + kb.Enter)
	v.run(`late()`)
	v.until(hasFocus(`[data-do="use-code"]`))
	v.reads("[data-redemption]", "Soup")

	// The Enter of a scan does not redeem the code before, whose answer came while the next one was being read.
	v.run(`delete window.late;
		const { answer } = window;
		window.answer = (a, o, real) => o.body?.includes(%q) ? new Promise((done) => (window.late = done)).then(real) : answer(a, o, real)`, code)
	v.key(code + kb.Enter)
	v.until(`window.late`)
	v.key("another-code")
	v.run(`late(); window.answer = (a, o, real) => real()`)
	v.until(`document.querySelector('[data-redemption][data-verdict="yes"]')?.checkVisibility()`)
	v.key(kb.Enter)
	v.reads(fieldError("redeem", "code"), "Code not found")
	c.WaitFor(t, token, o, "paid")

	v.click(`[data-do="scan"]`)
	v.until(`document.activeElement?.dataset.do === "use-code"`)
	v.reads("[data-redemption] .shop", shop)
	v.reads("[data-redemption]", "Soup", "Paid")
	require.True(t, evaluate[bool](v.tab, `stream.getTracks().every((track) => track.readyState === "ended")`), "the camera is off again")
	v.key("\r")
	v.reads("main", "“Soup” has been redeemed")
	c.WaitFor(t, token, o, "redeemed")
}

// eventsInBrowser looks at an event that the receiver refuses, and sends it again.
func eventsInBrowser(t *testing.T, c *scene) {
	r := rig.StartEventReceiver(t)
	s := c.Stack.Fresh(t).WithAdmins().With("SECKILL_EVENTS_URL="+r.URL, "SECKILL_EVENTS_SECRET="+rig.EventsSecret)
	p := s.Serve(t).Shop(t)
	order := p.Buy(t, s.Tokens(t, 1)[0], p.Publish(t, rig.Offer{Stock: 5}))
	v := visit(t, p.URL, "en")
	v.enter("/console/events", c.phone)
	rig.Eventually(t, "the answer of the receiver", func() bool {
		v.click(`[data-do="refresh"]`)
		return strings.Contains(v.text("table"), "503 closed for stocktaking")
	})
	v.reads("table", "order.created", "Pending")
	v.click("tbody summary")
	v.reads("tbody pre", order)
	r.Open.Store(true)
	v.click(`[data-event] [data-do="repeat"]`)
	v.reads("main", "Will be sent within a second.")
	rig.Eventually(t, "the event arrives", func() bool {
		_, arrived := r.Orders.Load(order)
		return arrived
	})
	v.send("filter", "status", "delivered")
	rig.Eventually(t, "the event is delivered", func() bool {
		v.click(`[data-do="refresh"]`)
		return strings.Contains(v.text("main"), order)
	})
	require.Equal(t, "/console/events?status=delivered", v.at())
	v.goTo("/console/events?status=failed")
	v.reads("main", "No deliveries.")
}
