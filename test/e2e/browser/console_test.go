package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// enter opens a page of the console with the session of a login that does not use the page.
func (b *tab) enter(path, phone string) {
	b.t.Helper()
	b.run(`const post = (path, body) => fetch("/api/v1/auth/" + path, {
			method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Refresh-Token": "cookie" },
		});
		const { headers } = await post("code", { phone: %[1]q });
		await post("login", { phone: %[1]q, code: headers.get("X-Demo-Code") })`, phone)
	// The pages expect a session, in the first of them only.
	b.before(`try { if (!sessionStorage.entered) localStorage.setItem("seckill.session", sessionStorage.entered = "1") } catch {}`)
	b.goTo(path)
	b.until(`!document.querySelector("[data-gate]")`)
}

func (b *tab) fill(form, field, value string) {
	b.t.Helper()
	selector := fmt.Sprintf(`form[data-form=%q] [name=%q]`, form, field)
	b.until(`document.querySelector(%q)?.checkVisibility()`, selector)
	b.run(`const f = document.querySelector(%q);
		f.focus();
		f.value = %q;
		f.dispatchEvent(new Event("change", { bubbles: true }))`, selector, value)
}

// send fills in fields of a form, given by names and values in turn, and submits it.
func (b *tab) send(form string, fields ...string) {
	b.t.Helper()
	for pair := range slices.Chunk(fields, 2) {
		b.fill(form, pair[0], pair[1])
	}
	b.submit(form)
}

func (b *tab) submit(form string) {
	b.t.Helper()
	b.click(fmt.Sprintf(`form[data-form=%q] button[type=submit]`, form))
}

func (b *tab) confirm() {
	b.t.Helper()
	b.click(dialog + " button.primary")
	b.until(`!document.querySelector("dialog")`)
}

func (b *tab) dismiss() {
	b.t.Helper()
	b.key(kb.Escape)
	b.until(`!document.querySelector("dialog")`)
}

// does presses the button of an action, reads the question, and confirms it.
func (b *tab) does(action string, texts ...string) {
	b.t.Helper()
	b.click(fmt.Sprintf(`[data-do=%q]`, action))
	b.reads(dialog, texts...)
	b.confirm()
}

// asks presses the button of an action, reads the question, and goes back.
func (b *tab) asks(action string, texts ...string) {
	b.t.Helper()
	b.click(fmt.Sprintf(`[data-do=%q]`, action))
	b.reads(dialog, texts...)
	b.click(dialog + " button.quiet")
	b.until(`!document.querySelector("dialog")`)
}

// leave follows a link to another document and waits for its heading. Expressions fail while the document loads.
func (b *tab) leave(selector, heading string) {
	b.t.Helper()
	b.click(selector)
	rig.Eventually(b.t, heading, func() bool {
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector("h1")?.innerText ?? ""`))
		return err == nil && text == heading
	})
}

func (b *tab) at() string {
	b.t.Helper()
	return evaluate[string](b, `location.pathname + location.search`)
}

// errorBox is the selector of the visible error message of a rejected request.
const errorBox = ".error-box:not([hidden])"

func fieldError(form, field string) string {
	return fmt.Sprintf(`form[data-form=%q] [data-field=%q] .error`, form, field)
}

// errors waits for the texts beside fields of a form, given by names and texts in turn.
func (b *tab) errors(form string, fields ...string) {
	b.t.Helper()
	for pair := range slices.Chunk(fields, 2) {
		b.reads(fieldError(form, pair[0]), pair[1])
	}
}

// local formats a time for a datetime field. Tests and browser use the same time zone.
func local(at time.Time) string { return at.Local().Format("2006-01-02T15:04:05") }

// TestConsole runs the admin console in a browser: the journeys of staff on MariaDB and Redis, and what only the browser
// decides on the embedded default. The tests of a group share one server unless they start another.
func TestConsole(t *testing.T) {
	tests := []struct {
		name    string
		run     func(t *testing.T, c *scene)
		journey bool
	}{
		{"access control", accessControl, true},
		{"sale lifecycle", saleLifecycle, true}, // of make test as well, on the embedded default
		{"sale changed", saleChanged, true},
		{"sale ended", saleEnded, true},
		{"figures", figuresInBrowser, true},
		{"cashier", cashierLands, true},
		{"drafts", draftsInBrowser, true},
		{"publish", publishInBrowser, true},
		{"pictures", picturesInBrowser, false},
		{"unconfirmed stock change", unconfirmedStockChange, false},
		{"edits kept", editsKept, false},
		{"summer time", summerTime, false},
		{"stale snapshot", staleSnapshotIgnored, false},
		{"orders", findOrders, true},
		{"counter", redeemedAtCounter, true},
		{"files", filesInBrowser, true},
		{"refund all", refundedAtOnce, true},
		{"reconcile", reconcileInBrowser, true},
		{"rush outside demo", rushOutsideDemo, false},
		{"languages", consoleLanguages, false},
		{"accessible", consoleAccessible, false},
		{"room", roomInConsole, true},
		{"events", eventsInBrowser, true},
		{"unusual vouchers", unusualVouchers, false},
	}
	rig.Core("embedded").Full("mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.WithAdmins().Serve(t).Shop(t)
		p.Stack = s
		for i, test := range tests {
			if !env.IsFull() && test.name != "sale lifecycle" || env.IsFull() && test.journey == s.IsEmbedded() {
				continue
			}
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(t, &scene{t: t, Shop: p, phone: rig.AdminPhone(i)})
			})
		}
	})
}

// accessControl checks who sees the content of the console: an admin does, also after a reload. A user without the role, one
// who has lost it and one who has logged out do not. The page says the loss of the role in other words than a missing demo.
func accessControl(t *testing.T, c *scene) {
	v := c.open("/console/orders")
	v.reads("[data-gate]", "The console is for staff")
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll("form, table").length`))
	v.click(`[data-do="enter"]`)
	v.login(rig.NewPhone())
	v.reads("[data-gate]", "This account has no role here")
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll("form, table").length`))
	v.leave(`main a[href="/"]`, "Flash sales")
	require.NotContains(t, v.text("#nav"), "Console")

	a := c.enter("/console/orders")
	a.reads("h1", "Orders")
	a.until(`document.querySelector("form[data-form=search]")`)
	a.do(chromedp.Reload()) // the session continues
	a.until(`document.querySelector("form[data-form=search]")`)
	a.goTo("/console/orders/abc")
	a.reads("h1", "Page not found")
	a.leave(`main a[href="/console"]`, "Home")

	// What was lost is read again, without a reload.
	a.run(`window.answer = (request) => count("/shops?") < 2 && request.includes("/shops?") && Promise.reject(new TypeError("gone"))`)
	a.leave(`#nav a[href="/console/shops"]`, "Shops")
	a.reads(errorBox, "Cannot reach the server")
	a.until(`document.querySelector("tbody tr")`)
	a.leave(`#nav a[href="/console/sales"]`, "Sales")
	a.run(`requested.length = 0`)
	a.leave(`main a[href="/console/new"]`, "New sale")
	a.reads(errorBox, "Cannot reach the server")
	a.until(`document.querySelector("form[data-form=make]")`)
	a.until(`!document.querySelector(%q)`, errorBox)
	a.goTo("/console/rush")
	a.until(`document.querySelector("form[data-form=rush]")`)
	a.run(`window.answer = (request) => request.endsWith("/admin/rush") && problem(403, "forbidden")`)
	a.reads("[data-gate]", "Your role does not include this page")
	require.Zero(t, evaluate[int](a.tab, `document.querySelectorAll("form, [data-nodemo]").length`))
	a.leave(`#more a[href="/"]`, "Flash sales")
	a.leave(`#nav a[href="/console"]`, "Home")
	a.click(`[data-do="account"]`)
	a.reads(dialog, "Admin")
	a.click(dialog + ` [data-do="logout"]`)
	a.until(`document.querySelector("[data-gate]")`)
	require.Zero(t, evaluate[int](a.tab, `document.querySelectorAll("form, table").length`))
}

// saleLifecycle creates a sale and publishes it. The open page of a buyer follows.
func saleLifecycle(t *testing.T, c *scene) {
	buyer := c.open("/")
	v := c.enter("/console")
	v.click(`a[href="/console/new"]`)
	v.reads("h1", "New sale")

	// Errors appear beside the field, both those of the page and those of the server.
	v.submit("make")
	v.reads(fieldError("make", "title"), "fill this in")
	require.Equal(t, "title", evaluate[string](v.tab, `document.activeElement.name`))
	// The seconds of the end are zero, which datetime fields omit.
	begin, end := time.Now().Add(-time.Minute), time.Now().Add(2*time.Hour).Truncate(time.Minute)
	v.send("make", "title", t.Name(), "sub_title", "made here", "shop_id", "1", "pay_value", "9.905", "actual_value", "x", "stock", "1.5",
		"limit_per_user", "101", "begin_at", local(end), "end_at", local(begin), "currency", "CNY")
	v.errors("make", "pay_value", "2 decimals", "actual_value", "amount", "stock", "whole number", "limit_per_user", "between 1 and 100")
	v.reads(fieldError("make", "end_at"), "after the start") // with the others
	// As a Chinese keyboard types them, and with what a copy brings along. Source: Automattic/wp-calypso#23042.
	v.send("make", "pay_value", "９。９０", "actual_value", "\u202a２０．０\u00a0", "stock", "３", "limit_per_user", "1\t",
		"begin_at", local(begin), "end_at", local(end), "currency", "QQQ")
	v.reads(fieldError("make", "currency"), "ISO 4217") // only the server checks this
	v.reads(errorBox, "invalid_request · Reference:")
	v.send("make", "currency", "ｃｎｙ")
	sale := v.publishDraft()
	v.reads("h1", t.Name())
	made := c.Must(t, rig.Get("/vouchers/"+sale, ""))
	assert.EqualValues(t, 990, made["pay_value"])
	assert.EqualValues(t, 2000, made["actual_value"])
	for field, want := range map[string]time.Time{"begin_at": begin, "end_at": end} {
		assert.WithinDuration(t, want.Truncate(time.Second), env.Must(time.Parse(time.RFC3339, made[field].(string)))(t), 0, field)
	}
	buyer.until(canBuy(sale))
	buyer.reads(card(sale), "0% claimed")
}

// saleChanged changes a sale; the page sends only the changed fields. The open page of a buyer follows.
func saleChanged(t *testing.T, c *scene) {
	sale := c.Publish(t, rig.Offer{PayValue: 990, ActualValue: 2000, Stock: 3})
	made := c.Must(t, rig.Get("/vouchers/"+sale, ""))
	buyer := c.shopping(sale)
	v := c.enter("/console/sales/" + sale)

	v.click(editLink(sale))
	v.send("change", "title", t.Name()+" changed", "pay_value", "5")
	v.reads(dialog, "¥9.90 to ", "¥5?")
	v.dismiss()
	assert.EqualValues(t, 990, c.Must(t, rig.Get("/vouchers/"+sale, ""))["pay_value"])
	v.submit("change")
	v.confirm()
	v.reads("main", "Saved.")
	buyer.reads(card(sale), t.Name()+" changed")
	changed := c.Must(t, rig.Get("/vouchers/"+sale, ""))
	assert.EqualValues(t, 500, changed["pay_value"])
	assert.Equal(t, made["begin_at"], changed["begin_at"])
	v.submit("change")
	v.reads("main", "Nothing was changed.")
	v.send("change", "limit_per_user", "3")
	v.reads("main", "Saved.")
	v.send("change", "limit_per_user", "2")
	v.reads(fieldError("change", "limit_per_user"), "cannot be lowered", "3 or more")
}

// saleEnded changes the stock of a sale and takes it off, and finds it in the audit log and in the list.
func saleEnded(t *testing.T, c *scene) {
	sale := c.Publish(t, rig.Offer{Title: t.Name(), Stock: 3})
	made := c.Must(t, rig.Get("/vouchers/"+sale, ""))
	buyer := c.shopping(sale)
	v := c.enter("/console/sales/" + sale + "/edit")

	v.send("stock", "delta", "0", "reason", "more came in")
	v.reads(fieldError("stock", "delta"), "not be 0")
	v.send("stock", "delta", "7")
	v.reads("main", "Stock updated: 10 left")
	buyer.until(`document.querySelector(%q).max === 10`, card(sale)+" .stock progress")
	v.send("stock", "delta", "-11", "reason", "too many")
	v.reads(fieldError("stock", "delta"), "Only 10 units are free") // without a question
	v.send("stock", "delta", "-9")
	v.reads(dialog, "Remove 9 units")
	v.dismiss()

	// Changes that end the sale need a confirmation.
	v.send("change", "end_at", local(time.Now().Add(-time.Second)))
	v.reads(dialog, "has already passed")
	v.dismiss()
	v.click(`main header a[href="/console/sales/` + sale + `"]`)
	v.asks("unpublish", "off sale? 0 unpaid orders and 0 paid orders stay valid.", "refund all paid orders")
	kept := c.Must(t, rig.Get("/vouchers/"+sale, ""))
	require.Equal(t, "on", kept["status"])
	require.Equal(t, made["end_at"], kept["end_at"])

	v.does("unpublish")
	v.reads(`main .head .chip`, "Off sale")
	buyer.until(`!document.querySelector(%q)`, card(sale))

	v.click(fmt.Sprintf(`a[href="/console/audit?voucher_id=%s"]`, sale))
	v.reads("table", "Sale created", "Stock adjusted", "more came in", "Status: Published → Unpublished", "Staff")
	require.NotContains(t, v.text("table"), "too many")
	require.Equal(t, 3, evaluate[int](v.tab, `document.querySelectorAll("tbody tr").length`))
	v.send("filter", "kind", "request", "target", sale)
	v.reads("table", "PATCH /admin/vouchers/:id")

	// The list has a tab for it, whose name is in the URL.
	v.click(`#nav a[href="/console/sales"]`)
	v.click(`[data-tab="ended"]`)
	v.until(`location.search === "?tab=ended" && document.querySelector('tbody a[href="/console/sales/%s"]')`, sale)
	v.send("sales", "search", strings.ToUpper(t.Name()))
	v.until(`document.querySelectorAll("tbody tr").length === 1 && document.querySelector('tbody a[href="/console/sales/%s"]')`, sale)
	require.Equal(t, []string{"0", "0", "0", "1", "1"}, evaluate[[]string](v.tab, `[...document.querySelectorAll("[data-tab] .count")].map((n) => n.innerText)`))
}

// reconcileInBrowser checks that the page lists differences and repairs those of the gate.
func reconcileInBrowser(t *testing.T, c *scene) {
	s := rig.WithoutBackgroundRepair(c.Stack.Fresh(t).WithAdmins()).In("queue")
	p := s.Serve(t).Shop(t)
	sale := p.Publish(t, rig.Offer{Stock: 5})
	p.Buy(t, s.Tokens(t, 1)[0], sale)
	v := visit(t, p.URL, "en", `window.answer = (a) => a.endsWith("/reconcile") && count("/reconcile") === 1 &&
		new Promise((done) => (window.late = done)).then(() => problem(503, "unavailable"))`)
	v.enter("/console/reconcile", c.phone)
	v.until("window.late")
	v.until(`document.querySelector('[data-do="refresh"]').dataset.busy !== undefined`) // so its answer cannot replace a newer one
	v.run("late()")
	v.reads(".summary", "No differences") // without a press
	require.False(t, evaluate[bool](v.tab, `document.querySelector('[data-do="apply"]').checkVisibility()`))

	s.ChangeGate(t, sale, 500)
	s.Exec(t, "UPDATE seckill_vouchers SET stock = stock - 1 WHERE voucher_id = "+sale)
	v.click(`[data-do="refresh"]`)
	v.reads("table", "gate_differs", "Repairable", "Needs manual action") // reconciliation does not change the database
	v.click(`[data-do="language"]`)
	v.reads("table", "未售 3 + 有效订单 1，与总库存 5 不符；有订单未退回库存")
	v.click(`[data-do="language"]`)
	v.reads("table", "gate_differs")
	v.does("apply", "the database is not changed")
	v.reads(".summary", "Repaired: ")
	v.reads("table", "Repaired")
}

func fact(name string) string { return fmt.Sprintf(`dd[data-fact=%q]`, name) }

func (b *tab) judged(invariant, verdict string) {
	b.t.Helper()
	b.until(`document.querySelector('[data-invariant="%s"]')?.dataset.ok === %q`, invariant, verdict)
}

func TestConsoleRush(t *testing.T) {
	env.FullParallel(t)
	s := rig.RealStack(t).WithAdmins().In("queue")
	v := visit(t, s.Serve(t).URL, "en")
	v.enter("/console/rush", rig.AdminPhone(0))
	v.send("rush", "buyers", "0", "stock", "x")
	v.errors("rush", "buyers", "between 1 and", "stock", "whole number")
	v.send("rush", "buyers", "400", "stock", "60", "for", "1")
	v.until(`document.querySelector("[data-live]")?.dataset.state === "live"`) // the rush may have ended by now
	v.until(`document.querySelector("[data-rush]").dataset.rush === "done"`)
	v.reads("[data-rush] "+fact("answered"), "400 of 400")
	v.reads("[data-rush] "+fact("orders"), "60 of 60")
	verdicts := `[...document.querySelectorAll("[data-rush] [data-invariant]")]`
	require.GreaterOrEqual(t, evaluate[int](v.tab, verdicts+`.length`), 3)
	require.True(t, evaluate[bool](v.tab, verdicts+`.every((li) => li.dataset.ok === "holds" && li.innerText.includes("✓"))`))
	v.click("[data-technical] summary")
	v.legible(t, "rush")

	// Why one has failed is said in the language of the page.
	v.click(`[data-do="language"]`)
	v.send("rush", "buyers", "400", "stock", "60", "for", "60")
	v.click(`[data-do="stop"]`)
	v.reads("[data-why]", "在全部买家收到响应前被停止")
	s.Verify(t)
}

// rushOutsideDemo logs in with a second factor. It checks that the page offers no rush outside demo mode and gives the
// reason.
func rushOutsideDemo(t *testing.T, c *scene) {
	r := rig.StartCodeReceiver(t)
	s := rig.EmbeddedStack(t).WithAdmins().CodesTo(r)
	key := s.Enroll(t, c.phone)
	v := visit(t, s.Serve(t).URL, "en")
	v.goTo("/console/rush")
	v.click(`[data-do="enter"]`)
	v.until(`document.querySelector("dialog[open] input[name=phone]")`)
	v.key(c.phone + "\r")
	v.until(`document.activeElement?.name === "code"`)
	rig.Eventually(t, "the code is sent", func() bool { return r.Code(c.phone) != "" })
	v.key(r.Code(c.phone) + "\r")
	v.until(`document.activeElement?.name === "totp"`) // outside demo mode, admins need a second factor
	require.Equal(t, "one-time-code", evaluate[string](v.tab, `document.activeElement.autocomplete`))
	require.Empty(t, evaluate[[]string](v.tab, unlabelled))
	v.key("12345\r")
	v.reads("dialog[open] .error", "The digits are wrong")
	v.key(env.Must(totp.GenerateCode(key, time.Now()))(t) + "\r")
	v.reads("[data-nodemo]", "This server is not in demo mode")
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll("form").length`))
}
