package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// between stands between a page and the network: `asked` is what the page has asked for, as "GET /api/v1/orders", and
// answer(asked, options, real) may answer in the server's place. problem makes a refusal of the API; load imports the
// page's own modules.
const between = `{
	const real = fetch, later = setTimeout;
	window.asked = [];
	window.delays = [];
	window.count = (part) => asked.filter((a) => a.includes(part)).length;
	window.fetch = (url, o = {}) => {
		const what = o.method + " " + url;
		asked.push(what);
		return window.answer?.(what, o, () => real(url, o)) || real(url, o);
	};
	window.setTimeout = (f, ms, ...rest) => { delays.push(ms); return later(f, ms, ...rest); };
	window.problem = (status, code, headers = {}) => Promise.resolve(new Response(JSON.stringify({ code, status, title: "No" }), { status, headers }));
	window.load = (path) => import(document.querySelector("script[type=module]").src.replace("shop/main.js", path));
	window.state = async (sale) => (await load("shop/buy.js")).purchase(sale);
	window.me = async () => (await load("lib/session.js")).session.user().id;
}`

// TestPagesUnderTrouble is what pages do when answers are late, lost, or somebody else's.
func TestPagesUnderTrouble(t *testing.T) {
	browser := startBrowser(t)
	p := embeddedStack(t).serve(t, "").shop(t)
	for name, test := range map[string]func(*testing.T, *shop, func(url string) *visitor){
		"not started yet": notStartedYet, "gone meanwhile": goneMeanwhile, "queued and failed": queuedAndFailed,
		"logged out meanwhile": loggedOutMeanwhile, "logout of an old token": logoutOfOldToken, "renewal fails": renewalFails,
		"pressed at once": pressedAtOnce, "clock after sleep": clockAfterSleep, "half an answer": halfAnAnswer,
		"order lost": orderLost, "late refusal": lateRefusal, "press forgotten": pressForgotten, "reloaded": reloaded,
		"code sent before": codeSentBefore, "asked once": askedOnce, "streams": streamsWanted, "order unread": orderUnread,
		"spread": spread,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, p, func(url string) *visitor {
				v := visit(t, browser, url, "en")
				v.before(between)
				return v
			})
		})
	}
}

// run runs statements in a tab's page; they may await.
func (b *tab) run(script string, args ...any) {
	b.t.Helper()
	evaluate[bool](b, "(async () => {"+fmt.Sprintf(script, args...)+"; return true })()")
}

// logsIn logs a new user in.
func (b *tab) logsIn() {
	b.t.Helper()
	b.goTo("/")
	b.click(`[data-do="login"]`)
	b.login(newPhone())
}

// becomes waits until a purchase is something.
func (b *tab) becomes(sale, is string) {
	b.t.Helper()
	b.until(`(await state(%q)).is === %q`, sale, is)
}

// notStartedYet: a refusal is kept under its key, so a try that may fare better has another one.
func notStartedYet(t *testing.T, p *shop, visit func(string) *visitor) {
	f := p.before(t)
	sale := p.publish(t, offer{Stock: 5, BeginAt: time.Now().Add(time.Hour)})
	v := visit(f.URL)
	v.logsIn()
	v.run(`await (await load("shop/buy.js")).press(%q)`, sale)
	keys := map[string]bool{}
	for _, key := range f.seen() {
		keys[key] = true
	}
	require.Len(t, f.seen(), 6)
	require.Len(t, keys, 6)
}

// goneMeanwhile: who presses hears why he gets nothing, though the page still shows stock.
func goneMeanwhile(t *testing.T, p *shop, visit func(string) *visitor) {
	sale := p.publish(t, offer{Stock: 5})
	v := visit(p.url)
	v.logsIn()
	// The next reads never end, so that what the page knows of the stock stays old.
	v.run(`window.answer = (a) => a.endsWith("/orders") && a.startsWith("POST") ? problem(409, "sale_ended") : a.includes("/vouchers?") && new Promise(() => {})`)
	v.click(buyOf(sale))
	v.reads(card(sale)+" .note", "The sale has ended.")
	v.run(`window.answer = (a) => a.startsWith("POST") ? problem(409, "sold_out") : a.includes("/vouchers?") && new Promise(() => {})`)
	v.click(buyOf(sale))
	v.reads(card(sale)+" .note", "Sold out.")
	require.False(t, evaluate[bool](v.tab, canBuy(sale)))
	v.run(`window.answer = null; `)
	v.do(chromedp.Evaluate[chromedp.Void](`void dispatchEvent(new Event("online"))`))
	v.until(canBuy(sale)) // a read that began later knows better
}

// queuedAndFailed: an order that comes to nothing in the queue is told of where it was bought.
func queuedAndFailed(t *testing.T, p *shop, visit func(string) *visitor) {
	sale := p.publish(t, offer{Stock: 5})
	v := visit(p.url)
	v.logsIn()
	v.run(`const user_id = await me(); window.answer = (a) =>
		a.startsWith("POST") ? Promise.resolve(new Response('{"status":"queued","order_id":"77"}', { status: 202 })) :
		a.endsWith("/orders/77/events") ? Promise.resolve(new Response(null, { status: 204 })) :
		a.endsWith("/orders/77") && Promise.resolve(new Response(JSON.stringify({ id: "77", voucher_id: %q, user_id, status: "failed", reason: "sold_out" })))`, sale)
	v.click(buyOf(sale))
	v.reads(card(sale)+" .note", "Sold out.")
}

// loggedOutMeanwhile: a purchase that waits ends with the session of who pressed, and nothing is sent for anybody else.
func loggedOutMeanwhile(t *testing.T, p *shop, visit func(string) *visitor) {
	sale := p.publish(t, offer{Stock: 5})
	v := visit(p.url)
	v.logsIn()
	v.run(`window.answer = (a) => a.includes(%q) && problem(503, "unavailable", { "Retry-After": "4" })`, "POST /api/v1/vouchers/"+sale)
	v.click(buyOf(sale))
	v.becomes(sale, "waiting")
	v.run(`await (await load("lib/session.js")).session.logout()`)
	v.becomes(sale, "idle")
	require.False(t, evaluate[bool](v.tab, `Boolean(document.querySelector("dialog"))`))
	require.Equal(t, 1, evaluate[int](v.tab, fmt.Sprintf(`count(%q)`, "POST /api/v1/vouchers/"+sale)))

	v.click(`[data-do="login"]`)
	v.login(newPhone())
	code := evaluate[string](v.tab, fmt.Sprintf(`load("lib/api.js").then((api) => api.postMine("/vouchers/%s/orders", { as: "1" })).catch((p) => p.code)`, sale))
	require.Equal(t, "other_user", code)
	require.Equal(t, 1, evaluate[int](v.tab, fmt.Sprintf(`count(%q)`, "POST /api/v1/vouchers/"+sale)))
	v.run(`(await load("shop/mine.js")).put({ id: "5", voucher_id: %q, user_id: "1", status: "paid" })`, sale)
	require.Empty(t, evaluate[string](v.tab, `load("shop/mine.js").then((m) => m.order("5")?.status ?? "")`), "another user's order")
}

// logoutOfOldToken: an access token that has expired does not keep the session alive on the server.
func logoutOfOldToken(t *testing.T, p *shop, visit func(string) *visitor) {
	v := visit(p.url)
	v.logsIn()
	v.run(`window.answer = (a) => a.endsWith("/auth/logout") && count("/auth/logout") === 1 && problem(401, "token_expired")`)
	v.click(`[data-do="logout"]`)
	v.until(`document.querySelector('[data-do="login"]')`)
	require.Equal(t, 2, evaluate[int](v.tab, `count("/auth/logout")`))
}

// renewalFails: a renewal whose answer does not come is asked for again soon, and again later.
func renewalFails(t *testing.T, p *shop, visit func(string) *visitor) {
	v := visit(p.url)
	v.goTo("/")
	v.run(`window.answer = (a, o, real) => {
		if (a.endsWith("/auth/login")) return real().then(async (r) => new Response(JSON.stringify({ ...(await r.json()), expires_in: 61 })));
		if (!a.endsWith("/auth/refresh") || count("/auth/refresh") > 4) return;
		if (count("/auth/refresh") > 1) return Promise.reject(new TypeError("gone"));
		return new Promise((_, no) => o.signal.addEventListener("abort", () => no(new TypeError("too late"))));
	}`)
	v.click(`[data-do="login"]`)
	v.login(newPhone())
	v.until(`count("/auth/refresh") > 4`)
	require.True(t, evaluate[bool](v.tab, `delays.includes(4000)`), "while the server still accepts the last cookie")
	v.reads("#account", "Log out")
}

// pressedAtOnce: who presses before his session is taken up is not asked to log in.
func pressedAtOnce(t *testing.T, p *shop, visit func(string) *visitor) {
	sale := p.publish(t, offer{Stock: 5})
	v := visit(p.url)
	v.logsIn()
	two := v.another()
	two.before(between)
	two.before(`window.answer = (a, o, real) => a.endsWith("/auth/refresh") && new Promise((done) => (window.go = done)).then(real)`)
	two.goTo("/")
	two.until(canBuy(sale))
	two.until(`window.go`)
	two.click(buyOf(sale))
	two.until(`(await state(%q)).is === "buying" || document.querySelector("dialog")`, sale)
	require.False(t, evaluate[bool](two, `Boolean(document.querySelector("dialog"))`))
	two.run(`go()`)
	two.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(sale))
}

// clockAfterSleep: a device that slept has a performance.now() that did not go on; the newest answer says so.
func clockAfterSleep(t *testing.T, p *shop, visit func(string) *visitor) {
	v := visit(p.url)
	v.goTo("/")
	for name, observe := range map[string]string{
		"an answer": `c.observe(new Date(at + 3600_000).toISOString(), now - 200, now)`,
		"a Date":    `c.observeDate(new Date(at + 3600_000).toUTCString(), now - 200, now)`,
	} {
		off := evaluate[float64](v.tab, fmt.Sprintf(`load("lib/clock.js").then((c) => {
			const at = Date.parse("2030-01-01T00:00:00Z"), now = performance.now();
			for (let i = 0; i < 8; i++) c.observe(new Date(at).toISOString(), now - 2, now);
			%s;
			return Math.abs(c.now() - (performance.now() - now) - at - 3600_000);
		})`, observe))
		require.LessOrEqual(t, off, 1000.0, name)
	}
}

// halfAnAnswer: an answer that begins and does not end is no answer.
func halfAnAnswer(t *testing.T, p *shop, visit func(string) *visitor) {
	v := visit(p.url)
	v.before(`window.answer = (a, o) => a.includes("/vouchers?") && count("/vouchers?") === 1 &&
		Promise.resolve(new Response(new ReadableStream({ start: (c) => o.signal.addEventListener("abort", () => c.error(new Error("too late"))) })))`)
	sale := p.publish(t, offer{Stock: 5})
	v.goTo("/")
	v.until(canBuy(sale))
}

// orderLost: a queued order that is nowhere for a moment has not failed; one that was given up is not when it turns up.
func orderLost(t *testing.T, p *shop, visit func(string) *visitor) {
	v := visit(p.url)
	v.logsIn()
	v.run(`window.mine = await load("shop/mine.js"); window.order = { id: "99", voucher_id: "1", user_id: await me(), status: "queued", created_at: new Date().toISOString(), expires_at: new Date().toISOString() }`)
	require.True(t, evaluate[bool](v.tab, `(async () => {
		const since = performance.now();
		mine.put(order);
		await mine.fetchOne("99");
		return mine.order("99").status === "queued" || performance.now() - since >= 5000;
	})()`))
	v.until(`mine.order("99").status === "failed"`)
	v.run(`mine.put({ ...order, status: "pending_payment" })`)
	require.Equal(t, "pending_payment", evaluate[string](v.tab, `mine.order("99").status`))
}

// lateRefusal: a renewal that is refused after a new login does not end that one.
func lateRefusal(t *testing.T, p *shop, visit func(string) *visitor) {
	v := visit(p.url)
	v.logsIn()
	phone := newPhone()
	v.run(`const { session } = await load("lib/session.js");
		window.answer = (a) => a.endsWith("/auth/refresh") && new Promise((done) => (window.go = done)).then(() => problem(401, "unauthenticated"));
		const code = await session.sendCode(%q);
		const renewal = session.renew().catch(() => {});
		while (!window.go) await new Promise((done) => setTimeout(done, 20));
		const login = session.login(%q, code);
		await Promise.race([login, new Promise((done) => setTimeout(done, 2000))]);
		go();
		await Promise.all([renewal, login])`, phone, phone)
	v.reads("#account", phone[len(phone)-4:])
}

// pressForgotten: after the device has slept, nothing is bought for a press of long ago.
func pressForgotten(t *testing.T, p *shop, visit func(string) *visitor) {
	sale := p.publish(t, offer{Stock: 5})
	v := visit(p.url)
	v.logsIn()
	v.run(`window.answer = (a) => a.includes(%q) && count(%q) === 1 && new Promise((done) => (window.go = done)).then(() => problem(503, "unavailable"))`,
		"POST /api/v1/vouchers/"+sale, "POST /api/v1/vouchers/"+sale)
	v.click(buyOf(sale))
	v.until(`window.go`)
	v.run(`const real = Date.now; Date.now = () => real() + 200_000; go()`)
	v.becomes(sale, "refused")
	require.True(t, evaluate[bool](v.tab, fmt.Sprintf(`state(%q).then((s) => s.open)`, sale)))
	v.reads(card(sale), "Try again to find out")
}

// reloaded: a press after a reload means the purchase whose outcome is open.
func reloaded(t *testing.T, p *shop, visit func(string) *visitor) {
	f := p.before(t)
	sale := p.publish(t, offer{Stock: 5})
	v := visit(f.URL)
	v.logsIn()
	f.say(strings.Split(strings.Repeat("unavailable ", 15)+"unavailable", " ")...)
	v.click(buyOf(sale))
	v.becomes(sale, "waiting")
	v.do(chromedp.Reload())
	first := f.seen()
	f.say()
	v.until(canBuy(sale))
	v.click(buyOf(sale))
	v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(sale))
	require.Equal(t, first[0], f.seen()[0])
	require.Zero(t, evaluate[int](v.tab, `sessionStorage.length`), "its outcome is known")
}

// codeSentBefore: a code that was sent before a reload can still be entered.
func codeSentBefore(t *testing.T, p *shop, visit func(string) *visitor) {
	phone := newPhone()
	body, err := json.Marshal(map[string]string{"phone": phone})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/api/v1/auth/code", strings.NewReader(string(body)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())

	v := visit(p.url)
	v.goTo("/")
	v.run(`window.answer = (a) => a.endsWith("/auth/code") && problem(429, "rate_limited", { "Retry-After": "50" })`) // a demo's server is not so strict
	v.click(`[data-do="login"]`)
	v.until(`document.querySelector("dialog[open] input[name=phone]")`)
	v.do(chromedp.SendKeys(chromedp.CSS(`dialog[open] input[name=phone]`), phone))
	v.click(`dialog[open] button[type=submit]`)
	v.reads(dialog+" .error", "Too many requests")
	v.until(`document.querySelector("dialog[open] input[name=code]").checkVisibility()`)
	v.do(chromedp.SendKeys(chromedp.CSS(`dialog[open] input[name=code]`), res.Header.Get("X-Demo-Code")))
	v.click(`dialog[open] button[type=submit]`)
	v.reads("#account", "Log out")
}

// askedOnce: a voucher that cannot be read is not asked for with every second.
func askedOnce(t *testing.T, p *shop, visit func(string) *visitor) {
	v := visit(p.url)
	v.goTo("/")
	v.run(`window.answer = (a) => a.endsWith("/vouchers/77") && problem(404, "not_found");
		const { one } = await load("shop/sales.js");
		for (let i = 0; i < 50; i++) { one("77"); await new Promise((done) => setTimeout(done)); }`)
	require.Equal(t, 1, evaluate[int](v.tab, `count("/vouchers/77")`))
}

// streamsWanted: a connection is held for what is about to happen, not for what may happen in months.
func streamsWanted(t *testing.T, p *shop, visit func(string) *visitor) {
	v := visit(p.url)
	v.logsIn()
	v.run(`const mine = await load("shop/mine.js"), user_id = await me();
		window.answer = (a) => a.endsWith("/events") && new Promise(() => {});
		mine.put({ id: "61", voucher_id: "1", user_id, status: "paid" });
		mine.put({ id: "62", voucher_id: "1", user_id, status: "refunding" })`)
	v.until(`count("/orders/62/events") > 0`)
	require.Zero(t, evaluate[int](v.tab, `count("/orders/61/events")`))
	v.run(`(await load("shop/mine.js")).pin("61")`)
	v.until(`count("/orders/61/events") > 0`)
}

// orderUnread: an order's page says what is wrong, and goes on by itself.
func orderUnread(t *testing.T, p *shop, visit func(string) *visitor) {
	sale := p.publish(t, offer{Stock: 5})
	v := visit(p.url)
	v.goTo("/")
	v.buy(sale, newPhone())
	path := evaluate[string](v.tab, fmt.Sprintf(`document.querySelector(%q).getAttribute("href")`, linkOf(sale)))
	two := v.another()
	two.before(between)
	two.before(`window.answer = (a) => a.startsWith("GET") && (a.includes("/orders?") ? new Promise(() => {}) : a.includes("/orders/") && !window.well && problem(500, "internal"))`)
	two.goTo(path)
	two.reads(".banner", "Something went wrong on our side.")
	two.run(`window.well = true`)
	two.orderIs("pending_payment")
	two.until(`!document.querySelector(".banner").checkVisibility()`)

	v.goTo("/orders/%FF")
	v.reads(".empty", "Order not found.")
}

// spread: pages that were told the same at the same moment do not come back at the same moment.
func spread(t *testing.T, p *shop, visit func(string) *visitor) {
	v := visit(p.url)
	v.before(`Math.random = () => 0`)
	p.publish(t, offer{Stock: 5, BeginAt: time.Now().Add(12 * time.Second)})
	v.goTo("/")
	v.until(`delays.includes(2100)`) // not each second, though the beginning is near
	v.run(`Math.random = () => 1; window.answer = (a) => a.endsWith("/x/events") && Promise.resolve(new Response(""));
		window.end = new AbortController();
		(await load("lib/session.js")).session.token = async () => "x";
		(await load("lib/stream.js")).follow("/x/events", { signal: end.signal, onEvent() {} })`)
	v.until(`delays.includes(3000)`)
	v.run(`end.abort()`)
}
