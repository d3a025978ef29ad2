package e2e

import (
	"fmt"
	"net/http"
	"seckill/internal/app"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// adminPhones are for admins who log in to the console, each once: a second code would end the first.
var adminPhones = []string{
	"13811110000", "13811110001", "13811110002", "13811110003", "13811110004", "13811110005", "13811110006", "13811110007", "13811110008",
	"13811110009", "13811110010", "13811110011", "13811110012", "13811110013", "13811110014", "13811110015", "13811110016",
}

// withAdmins returns the stack with the demo's admin, who is the tests', and those who go to the console.
func (s *stack) withAdmins() *stack {
	return s.with("SECKILL_ADMIN_PHONES=" + app.DemoAdmin + "," + strings.Join(adminPhones, ","))
}

// enter opens the console at a path and logs in there.
func (b *tab) enter(path, phone string) {
	b.t.Helper()
	b.goTo(path)
	b.click(`[data-do="enter"]`)
	b.login(phone)
	b.until(`!document.querySelector("[data-gate]")`)
}

// fill writes into a field of a form, instead of what is there.
func (b *tab) fill(form, field, value string) {
	b.t.Helper()
	selector := fmt.Sprintf(`form[data-form=%q] [name=%q]`, form, field)
	b.until(`document.querySelector(%q)?.checkVisibility()`, selector)
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(f => { f.focus(); f.value = %q; })(document.querySelector(%q))`, value, selector)))
}

// choose selects in a list of choices.
func (b *tab) choose(selector, value string) {
	b.t.Helper()
	b.until(`document.querySelector(%q)`, selector)
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(f => { f.value = %q; f.dispatchEvent(new Event("change", {bubbles: true})); })(document.querySelector(%q))`,
		value, selector)))
}

// submit presses the button of a form.
func (b *tab) submit(form string) {
	b.t.Helper()
	b.click(fmt.Sprintf(`form[data-form=%q] button[type=submit]`, form))
}

// agree says yes to the question that is asked.
func (b *tab) agree() {
	b.t.Helper()
	b.click(dialog + " button.primary")
	b.until(`!document.querySelector("dialog")`)
}

// leave follows a link to a page that is loaded. While that happens the tab cannot be asked.
func (b *tab) leave(selector, heading string) {
	b.t.Helper()
	b.click(selector)
	eventually(b.t, heading, func() bool {
		said, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector("h1")?.innerText ?? ""`))
		return err == nil && said == heading
	})
}

// at is the path that a tab shows.
func (b *tab) at() string {
	b.t.Helper()
	return evaluate[string](b, `location.pathname + location.search`)
}

// errorBox is where a page shows why the server rejected a request.
const errorBox = ".error-box:not([hidden])"

func fieldError(form, field string) string {
	return fmt.Sprintf(`form[data-form=%q] [data-field=%q] .error`, form, field)
}

// local is a time as a field of the browser has it: tests and browser are in one zone.
func local(at time.Time) string { return at.Local().Format("2006-01-02T15:04:05") }

// TestConsole is what admins do in their browsers, on one embedded server if nothing else is said.
func TestConsole(t *testing.T) {
	browser := startBrowser(t)
	p := embeddedStack(t).withAdmins().serve(t, "").shop(t)
	for i, test := range []struct {
		name string
		run  func(t *testing.T, c *consoleTest)
	}{
		{"who may", whoMay},
		{"a sale", makeAndChange},
		{"stock once", stockOnce},
		{"stock unknown", stockUnknown},
		{"a normal voucher", changeNormal},
		{"still writing", stillWriting},
		{"old news", oldNews},
		{"orders", findOrders},
		{"letters", deadLettersInBrowser},
		{"reconcile", reconcileInBrowser},
		{"live", saleLive},
		{"live, cut", liveCut},
		{"no demo", noDemo},
		{"no admin any more", demoted},
		{"languages", consoleLanguages},
		{"narrow", consoleNarrow},
		{"accessible", consoleAccessible},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, &consoleTest{shop: p, phone: adminPhones[i], visit: func(url, language string) *visitor { return visit(t, browser, url, language) }})
		})
	}
}

// consoleTest is what a test of the console works with: a server, its admin's token, and the phone of another admin, who
// has not logged in yet.
type consoleTest struct {
	*shop
	phone string
	visit func(url, language string) *visitor
}

// whoMay: nobody sees anything before he is known to be an admin, and the server does not only rely on the page.
func whoMay(t *testing.T, c *consoleTest) {
	v := c.visit(c.url, "en")
	v.goTo("/console/orders")
	v.reads("[data-gate]", "The console is for admins")
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll("form, table").length`))
	v.click(`[data-do="enter"]`)
	v.login(newPhone())
	v.reads("[data-gate]", "This account is not an admin")
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll("form, table").length`))
	v.leave(`main a[href="/"]`, "Flash sales")
	require.NotContains(t, v.text("#nav"), "Console")

	a := c.visit(c.url, "en")
	a.enter("/console/orders", c.phone)
	a.reads("h1", "Orders")
	a.until(`document.querySelector("form[data-form=search]")`)
	a.do(chromedp.Reload()) // the session is taken up again
	a.until(`document.querySelector("form[data-form=search]")`)
	a.leave(`#nav a[href="/"]`, "Flash sales")
	a.leave(`#nav a[href="/console"]`, "Sales")
	a.click(`[data-do="logout"]`)
	a.until(`document.querySelector("[data-gate]")`)
	require.Zero(t, evaluate[int](a.tab, `document.querySelectorAll("form, table").length`))
}

// makeAndChange: a sale is made, changed and given stock, and a buyer's page that is open all the time follows.
func makeAndChange(t *testing.T, c *consoleTest) {
	buyer := c.visit(c.url, "en")
	buyer.goTo("/")
	v := c.visit(c.url, "en")
	v.enter("/console", c.phone)
	v.click(`a[href="/console/new"]`)
	v.reads("h1", "New sale")

	// What is wrong is said beside the field, before the server is asked, and by the server.
	v.submit("make")
	for _, field := range []string{"title", "shop_id", "pay_value", "actual_value", "stock"} {
		v.reads(fieldError("make", field), "fill this in")
	}
	require.Equal(t, "title", evaluate[string](v.tab, `document.activeElement.name`))
	begin, end := time.Now().Add(-time.Minute), time.Now().Add(2*time.Hour).Truncate(time.Minute) // which fields write without seconds
	for field, value := range map[string]string{
		"title": t.Name(), "sub_title": "made here", "shop_id": "1", "pay_value": "9.905", "actual_value": "x", "stock": "1.5",
		"limit_per_user": "101", "begin_at": local(end), "end_at": local(begin), "currency": "CNY",
	} {
		v.fill("make", field, value)
	}
	v.submit("make")
	v.reads(fieldError("make", "pay_value"), "2 decimals")
	v.reads(fieldError("make", "actual_value"), "amount")
	v.reads(fieldError("make", "stock"), "whole number")
	v.reads(fieldError("make", "limit_per_user"), "between 1 and 100")
	for field, value := range map[string]string{"pay_value": "9.90", "actual_value": "20", "stock": "3", "limit_per_user": "1"} {
		v.fill("make", field, value)
	}
	v.submit("make")
	v.reads(fieldError("make", "end_at"), "after the start")
	v.fill("make", "begin_at", local(begin))
	v.fill("make", "end_at", local(end))
	v.fill("make", "currency", "QQQ")
	v.submit("make")
	v.reads(fieldError("make", "currency"), "ISO 4217") // this only the server knows
	v.reads(errorBox, "invalid_request · Reference:")
	v.fill("make", "currency", "CNY")
	v.do(chromedp.Evaluate[chromedp.Void](`(b => { for (let i = 0; i < 5; i++) b.click(); })(document.querySelector("form[data-form=make] button"))`))
	v.until(`/^\/console\/sales\/\d+$/.test(location.pathname)`)
	sale := v.at()[len("/console/sales/"):]
	v.reads("h1", t.Name())
	made := c.must(t, http.MethodGet, "/vouchers/"+sale, "", nil)
	assert.EqualValues(t, 990, made["pay_value"])
	assert.EqualValues(t, 2000, made["actual_value"])
	for field, want := range map[string]time.Time{"begin_at": begin, "end_at": end} {
		got, err := time.Parse(time.RFC3339, made[field].(string))
		require.NoError(t, err)
		assert.WithinDuration(t, want.Truncate(time.Second), got, 0, field)
	}
	n := 0
	for _, other := range c.must(t, http.MethodGet, "/vouchers?limit=100", "", nil)["items"].([]any) {
		if other.(map[string]any)["title"] == t.Name() {
			n++
		}
	}
	require.Equal(t, 1, n, "five presses make one sale")
	buyer.until(canBuy(sale))
	buyer.reads(card(sale), "3 of 3 left")

	// Only what was changed is sent.
	v.fill("change", "title", t.Name()+" changed")
	v.fill("change", "pay_value", "5")
	v.submit("change")
	v.reads("main", "Saved.")
	buyer.reads(card(sale), t.Name()+" changed")
	changed := c.must(t, http.MethodGet, "/vouchers/"+sale, "", nil)
	assert.EqualValues(t, 500, changed["pay_value"])
	assert.Equal(t, made["begin_at"], changed["begin_at"])
	v.submit("change")
	v.reads("main", "Nothing was changed.")

	v.fill("stock", "delta", "0")
	v.fill("stock", "reason", "more came in")
	v.submit("stock")
	v.reads(fieldError("stock", "delta"), "not be 0")
	v.fill("stock", "delta", "7")
	v.submit("stock")
	v.reads("main", "Stock updated: 10 left")
	buyer.reads(card(sale), "10 of 10 left")
	v.fill("stock", "delta", "-11")
	v.fill("stock", "reason", "too many")
	v.submit("stock")
	v.reads(dialog, "Remove 11 units")
	v.agree()
	v.reads("form[data-form=stock] .error-box", "invalid_state")

	// What ends the sale for its buyers is asked first.
	for _, last := range []struct{ field, value, question string }{
		{"end_at", local(time.Now().Add(-time.Second)), "has already passed"}, {"status", "off", "can no longer be bought"},
	} {
		was := evaluate[string](v.tab, fmt.Sprintf(`document.querySelector("form[data-form=change] [name=%s]").value`, last.field))
		v.choose(fmt.Sprintf(`form[data-form="change"] [name=%q]`, last.field), last.value)
		v.submit("change")
		v.reads(dialog, last.question)
		v.key("\x1b") // no
		v.until(`!document.querySelector("dialog")`)
		v.choose(fmt.Sprintf(`form[data-form="change"] [name=%q]`, last.field), was)
	}
	kept := c.must(t, http.MethodGet, "/vouchers/"+sale, "", nil)
	require.Equal(t, "on", kept["status"])
	require.Equal(t, made["end_at"], kept["end_at"])

	v.choose(`form[data-form="change"] [name="status"]`, "off")
	v.submit("change")
	v.agree()
	v.reads(`main .head .chip`, "Unpublished")
	buyer.until(`!document.querySelector(%q)`, card(sale))

	v.click(fmt.Sprintf(`a[href="/console/audit?voucher_id=%s"]`, sale))
	for _, line := range []string{"Sale created", "Sale changed", "Stock adjusted", "more came in", "Admin"} {
		v.reads("table", line)
	}
	require.NotContains(t, v.text("table"), "too many")
	require.Equal(t, 4, evaluate[int](v.tab, `document.querySelectorAll("tbody tr").length`))

	// The list is searched by state, and the search is in the address.
	v.click(`#nav a[href="/console"]`)
	v.choose(`select[name="state"]`, "off")
	v.until(`location.search === "?state=off" && document.querySelector('tbody a[href="/console/sales/%s"]')`, sale)
	v.choose(`select[name="state"]`, "on_sale")
	v.until(`location.search === "?state=on_sale" && document.querySelector(".listing")?.ariaBusy !== "true" && !document.querySelector('tbody a[href="/console/sales/%s"]')`, sale)
}

// stockOnce: an answer that is lost does not book twice, and neither do many presses.
func stockOnce(t *testing.T, c *consoleTest) {
	sale := c.publish(t, offer{Stock: 10})
	f := c.before(t)
	f.watch("/api/v1/admin/")
	v := c.visit(f.URL, "en")
	v.enter("/console/sales/"+sale, c.phone)
	v.fill("stock", "delta", "5")
	v.fill("stock", "reason", "lost answers")
	f.say("half")
	v.submit("stock")
	v.reads("form[data-form=stock] .error-box", "network")
	v.do(chromedp.Evaluate[chromedp.Void](`(b => { for (let i = 0; i < 5; i++) b.click(); })(document.querySelector("form[data-form=stock] button"))`))
	v.reads("form[data-form=stock]", "Stock updated: 15 left")
	keys := f.seen()
	require.Len(t, keys, 2)
	require.Regexp(t, `^[0-9a-f]{32}$`, keys[0])
	require.Equal(t, keys[0], keys[1], "the same intent has the same key")
	v.fill("stock", "delta", "5")
	v.fill("stock", "reason", "lost answers")
	v.submit("stock")
	v.reads("form[data-form=stock]", "Stock updated: 20 left")
	require.NotEqual(t, keys[0], f.seen()[2], "what is done is done: the same again is another intent")
}

// findOrders: an order is found by its buyer's phone, cancelled, redeemed by the buyer's code, and its page tells all.
func findOrders(t *testing.T, c *consoleTest) {
	first, second, phone := c.publish(t, offer{Stock: 5}), c.publish(t, offer{Stock: 5}), newPhone()
	token, err := c.Login(t.Context(), phone)
	require.NoError(t, err)
	kept, unwanted := c.buy(t, token, first), c.buy(t, token, second)
	v := c.visit(c.url, "en")
	v.enter("/console/orders", c.phone)
	v.fill("search", "phone", "12")
	v.submit("search")
	v.reads(errorBox, "invalid_request")
	v.fill("search", "phone", newPhone())
	v.submit("search")
	v.reads("main", "No orders match.")
	v.fill("search", "phone", phone)
	v.submit("search")
	v.until(`document.querySelectorAll("tbody [data-order]").length === 2`)
	v.reads("table", phone)
	v.choose(`form[data-form="search"] [name="status"]`, "paid")
	v.submit("search")
	v.reads("main", "No orders match.")

	require.NotContains(t, evaluate[string](v.tab, `location.href`), phone, "addresses are read by many")
	v.click(`#nav a[href="/console/orders"]`)
	v.until(`document.querySelector("form[data-form=search] [name=phone]").value === ""`)
	v.run(`history.back()`)
	v.until(`document.querySelector("form[data-form=search] [name=phone]").value === %q`, phone)
	v.reads("main", "No orders match.")
	v.do(chromedp.Reload()) // which does not end the search
	v.reads("main", "No orders match.")
	require.Equal(t, phone, v.written("search", "phone"))
	v.choose(`form[data-form="search"] [name="status"]`, "")
	v.submit("search")
	v.until(`document.querySelectorAll("tbody [data-order]").length === 2`)
	v.click(fmt.Sprintf(`a[data-order=%q]`, unwanted.ID))
	v.until(`document.querySelector("[data-status=pending_payment]")`)
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll('[data-do="redeem"], [data-do="refund"]').length`), "only moves that are possible")
	v.click(`[data-do="cancel"]`)
	v.reads(dialog, phone)
	v.key("\x1b") // no
	v.until(`!document.querySelector("dialog")`)
	require.Equal(t, "pending_payment", evaluate[string](v.tab, `document.querySelector("[data-status]").dataset.status`))
	v.click(`[data-do="cancel"]`)
	v.agree()
	v.until(`document.querySelector("[data-status=cancelled]")`)
	v.reads("main", "No action is available")
	v.reads("table", "Admin")
	gone, err := c.Order(t.Context(), token, unwanted.ID)
	require.NoError(t, err)
	require.Equal(t, "cancelled", gone.Status)

	require.Equal(t, http.StatusOK, c.send(t, http.MethodPost, "/api/v1/orders/"+kept.ID+"/pay", token).status)
	c.waitFor(t, token, kept.ID, "paid")
	code := c.must(t, http.MethodGet, "/orders/"+kept.ID, token, nil)["redeem_code"].(string)
	v.goTo("/console/orders")
	v.fill("redeem", "code", "no-such-code")
	v.submit("redeem")
	v.until(`document.querySelector("form[data-form=redeem] .error-box")?.checkVisibility()`)
	v.fill("redeem", "code", code)
	v.submit("redeem")
	v.reads("main", "Order "+kept.ID+" has been redeemed.")
	c.waitFor(t, token, kept.ID, "redeemed")
	v.goTo("/console/orders/" + kept.ID)
	v.until(`document.querySelector("[data-status=redeemed]")`)
	v.reads("main", "sandbox pay_") // its payment
	for _, line := range []string{"Paid", "Redeemed", "Payment provider"} {
		v.reads(".listing table", line)
	}
	require.NotContains(t, v.text("main"), code, "the code is the buyer's")
}

// deadLettersInBrowser: an order that the database refused is replayed, and another one thrown away.
func deadLettersInBrowser(t *testing.T, c *consoleTest) {
	s := embeddedStack(t).withAdmins().in("queue").with(envRedeliver + "=300ms")
	p := s.serve(t, "").shop(t)
	sale, tokens := p.publish(t, offer{Stock: 5}), s.tokens(t, 1)
	user := p.send(t, http.MethodGet, "/api/v1/me", tokens[0]).body["id"].(string)
	cure := poison(t, s, user)
	order, letter := bury(t, p.process, sale, tokens[0], p.token)
	row := fmt.Sprintf(`[data-letter=%q]`, letter)

	v := c.visit(p.url, "en")
	v.enter("/console/dead-letters", c.phone)
	v.reads("table", "poison")
	v.click(`tbody a[href*="user_id"]`)
	v.until(`document.querySelector("[data-status=failed]")`) // what never came to the database is shown, too
	v.reads("main", "Something went wrong on our side.")      // which is its reason
	v.goTo("/console/sales/" + sale)
	for _, name := range []string{"Queue depth (all sales)", "Oldest queued order (all sales, s)", "Dead letters (all sales)"} {
		v.reads("[data-live]", name)
	}
	v.click(`#nav a[href="/console/dead-letters"]`)
	cure()
	v.click(row + ` [data-do="replay"]`)
	v.reads(dialog, order)
	v.agree()
	v.reads("main", "Returned to the queue")
	v.reads("main", "No dead letters.")
	requireOrdered(t, p.process, tokens[0], order)

	other := p.publish(t, offer{Stock: 5})
	poison(t, s, user)
	order, letter = bury(t, p.process, other, tokens[0], p.token)
	v.click(`[data-do="refresh"]`)
	row = fmt.Sprintf(`[data-letter=%q]`, letter)
	v.click(row + ` [data-do="discard"]`)
	v.reads(dialog, order)
	v.agree()
	v.reads("main", "No dead letters.")
	require.Empty(t, letters(t, p.process, p.token))
	s.verify(t)
}

// reconcileInBrowser: damage is named, and repaired where it can be.
func reconcileInBrowser(t *testing.T, c *consoleTest) {
	s := patient(embeddedStack(t).withAdmins()).in("queue")
	p := s.serve(t, "").shop(t)
	l := &liveSale{stack: s, p: p.process, sale: p.publish(t, offer{Stock: 5}), rdb: s.client(t)}
	l.order(t, s.tokens(t, 1)[0])
	v := c.visit(p.url, "en")
	v.enter("/console/reconcile", c.phone)
	v.reads(".summary", "No differences")
	require.False(t, evaluate[bool](v.tab, `document.querySelector('[data-do="apply"]').checkVisibility()`))

	require.NoError(t, l.rdb.IncrBy(t.Context(), l.key("stock"), 500).Err())
	s.exec(t, "UPDATE seckill_vouchers SET stock = stock - 1 WHERE voucher_id = "+l.sale)
	v.click(`[data-do="refresh"]`)
	v.reads("table", "stock_high")
	v.reads("table", "Repairable")
	v.reads("table", "Needs manual action") // the database is not touched
	v.click(`[data-do="apply"]`)
	v.reads(dialog, "the database is not changed")
	v.agree()
	v.reads(".summary", "Repaired: ")
	v.reads("table", "Repaired")
	s.exec(t, "UPDATE seckill_vouchers SET stock = stock + 1 WHERE voucher_id = "+l.sale)
	eventually(t, "everything fits", func() bool {
		code, _ := s.run(t, "reconcile", "--apply")
		return code == 0
	})
	v.click(`[data-do="refresh"]`)
	v.reads(".summary", "No differences")
}
