package browser

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// interceptFetch is a script of every tab that wraps fetch and setTimeout. `requested` lists the requests of the page, such as "GET
// /api/v1/orders", and `delays` its timers. A test may define answer(request, options, real) to respond in place of the
// server. problem builds an error response; load returns a module of the page.
const interceptFetch = `{
	const real = fetch, later = setTimeout;
	window.requested = [];
	window.delays = [];
	window.count = (part) => requested.filter((a) => a.includes(part)).length;
	window.fetch = (url, o = {}) => {
		const what = o.method + " " + url;
		requested.push(what);
		return window.answer?.(what, o, () => real(url, o)) || real(url, o);
	};
	window.setTimeout = (f, ms, ...rest) => { delays.push(ms); return later(f, ms, ...rest); };
	// never is a response that does not arrive. Like a real one, it ends when the page gives up waiting.
	window.never = (o) => new Promise((_, fail) => o.signal?.addEventListener("abort", () => fail(o.signal.reason)));
	window.problem = (status, code, headers = {}) => Promise.resolve(new Response(JSON.stringify({ code, status, title: "No" }), { status, headers }));
	// respondWith answers the next requests to a part of the API with problems of these codes, and keeps the Idempotency-Keys of all of
	// them in the variable keys. A request whose code is "lost" or "half" takes effect; no answer, or a part of one, arrives.
	window.respondWith = (part, ...codes) => {
		window.keys = [];
		window.answer = (what, o, real) => {
			if (!what.includes(part)) return;
			keys.push(o.headers.get("Idempotency-Key"));
			const code = codes.shift();
			if (code === "lost") return real().then(() => { throw new TypeError(code); });
			if (code === "half") return real().then(() => new Response(new ReadableStream({ start: (c) => c.error(new TypeError(code)) })));
			return code && problem(code === "rate_limited" ? 429 : 503, code, { "Retry-After": "1" });
		};
	};
	window.load = (path) => import(document.querySelector("script[src*='main.']").src.replace("shop/main.bundle.js", path));
	window.state = async (sale) => (await load("shop/buy.js")).purchase(sale);
	window.me = async () => (await load("lib/session.js")).session.user().id;
}`

// run runs statements in a tab's page; they may use await.
func (b *tab) run(script string, args ...any) {
	b.t.Helper()
	evaluate[bool](b, "(async () => {"+fmt.Sprintf(script, args...)+"; return true })()")
}

// loginNewUser logs in a new user without the dialog.
func (b *tab) loginNewUser() {
	b.t.Helper()
	b.goTo("/")
	b.run(`const { session } = await load("lib/session.js"); const phone = %q; await session.login(phone, (await session.sendCode(phone)).demo)`, rig.NewPhone())
}

func (b *tab) waitForState(sale, is string) {
	b.t.Helper()
	b.until(`(await state(%q)).is === %q`, sale, is)
}

// purchaseFails: the page shows why a purchase failed, even if it still showed stock, and that a queued order takes long or has failed.
func purchaseFails(t *testing.T, p *scene) {
	sale := p.Publish(t, rig.Offer{Stock: 5})
	v := p.newUser()
	// The next reads never end, so the page keeps its old stock.
	v.run(`window.answer = (a, o) => a.endsWith("/orders") && a.startsWith("POST") ? problem(409, "sale_ended") : a.includes("/vouchers?") && never(o)`)
	v.click(buyOf(sale))
	v.reads(card(sale)+" .note", "The sale has ended.")
	v.run(`window.answer = (a, o) => a.startsWith("POST") ? problem(409, "sold_out") : a.includes("/vouchers?") && never(o)`)
	v.click(buyOf(sale))
	v.reads(resultOf(sale, "lost"), "Just missed it")
	require.False(t, evaluate[bool](v.tab, canBuy(sale)))
	v.run(`window.answer = null; `)
	v.do(chromedp.Evaluate[chromedp.Void](`void dispatchEvent(new Event("online"))`))
	v.until(canBuy(sale)) // a later read corrects the stock

	v.run(`window.order = { id: "77", voucher_id: %q, user_id: await me(), status: "queued", ahead: 0, created_at: new Date((await load("lib/clock.js")).now() - 11_000) }; window.answer = (a) =>
		a.startsWith("POST") ? Promise.resolve(new Response('{"status":"queued","order_id":"77"}', { status: 202 })) :
		a.endsWith("/orders/77/events") ? Promise.resolve(new Response(null, { status: 204 })) :
		a.endsWith("/orders/77") && Promise.resolve(new Response(JSON.stringify(order)))`, sale)
	v.click(buyOf(sale))
	v.reads(card(sale)+" .note", "This is taking longer than usual.")
	v.run(`order.status = "failed"; order.reason = "sold_out"`)
	v.reads(resultOf(sale, "lost"), "Just missed it")

	// The list shows no card before all have their places, not even that of the sale whose page was shown first.
	two := v.newTab()
	two.before(`window.answer = (a, o, real) => a.includes("/vouchers?") && !window.well && new Promise((done) => (window.go = done)).then(real)`)
	two.goTo("/sales/" + sale)
	two.click(`header.lead a[href="/"]`)
	two.until(`window.go`)
	require.Zero(t, evaluate[int](two, `document.querySelectorAll("li.sale").length`))
	two.run(`window.well = true; go()`)
	two.until(canBuy(sale))

	// The page of a sale that is not read yet has no other heading.
	two.before(`window.answer = (a, o) => a.includes("/vouchers/") && never(o)`)
	two.goTo("/sales/" + sale)
	two.reads("h1", "Loading…")
}

// loggedOutMeanwhile: a logout ends a waiting purchase, and nothing is sent on behalf of another user. With an expired access token
// it is repeated, or the session would go on at the server.
func loggedOutMeanwhile(t *testing.T, p *scene) {
	sale := p.Publish(t, rig.Offer{Stock: 5})
	v := p.newUser()
	v.run(`window.answer = (a) => a.endsWith("/auth/logout")
		? count("/auth/logout") === 1 && problem(401, "token_expired")
		: a.includes(%q) && problem(503, "unavailable", { "Retry-After": "120" })`, "POST /api/v1/vouchers/"+sale)
	v.click(buyOf(sale))
	v.waitForState(sale, "waiting")
	v.click(`[data-do="logout"]`)
	v.until(`count("/auth/logout") === 2`)
	v.waitForState(sale, "idle")
	require.False(t, evaluate[bool](v.tab, `Boolean(document.querySelector("dialog"))`))
	require.Equal(t, 1, evaluate[int](v.tab, fmt.Sprintf(`count(%q)`, "POST /api/v1/vouchers/"+sale)))

	v.click(`[data-do="login"]`)
	v.login(rig.NewPhone())
	code := evaluate[string](v.tab, fmt.Sprintf(`load("lib/api.js").then((api) => api.postMine("/vouchers/%s/orders", { as: "1" })).catch((p) => p.code)`, sale))
	require.Equal(t, "other_user", code)
	require.Equal(t, 1, evaluate[int](v.tab, fmt.Sprintf(`count(%q)`, "POST /api/v1/vouchers/"+sale)))
	v.run(`(await load("shop/mine.js")).put({ id: "5", voucher_id: %q, user_id: "1", status: "paid" })`, sale)
	require.Empty(t, evaluate[string](v.tab, `load("shop/mine.js").then((m) => m.order("5")?.status ?? "")`), "an order of another user is not stored")
}

// renewals: a renewal without an answer is repeated soon, while the server still accepts the last cookie, and again later. So is
// one whose cookie the server has exchanged although the page does not receive the answer.
func renewals(t *testing.T, p *scene) {
	f := startFront(t, p.URL)
	v := visit(t, f.URL, "en")
	v.goTo("/")
	v.run(`window.answer = (a, o, real) => {
		if (a.endsWith("/auth/login")) return real().then(async (r) => new Response(JSON.stringify({ ...(await r.json()), expires_in: 61 })));
		if (!a.endsWith("/auth/refresh") || count("/auth/refresh") > 4) return;
		if (count("/auth/refresh") > 1) return Promise.reject(new TypeError("gone"));
		return new Promise((_, no) => o.signal.addEventListener("abort", () => no(new TypeError("too late"))));
	}`)
	v.click(`[data-do="login"]`)
	v.login(rig.NewPhone())
	v.until(`count("/auth/refresh") > 4`)
	require.True(t, evaluate[bool](v.tab, `delays.includes(4000)`), "retries while the server still accepts the last cookie")
	v.reads("#account", "Log out")

	f.LostRenewals.Store(2)
	v.do(chromedp.Reload())
	v.reads("#account", "Log out")
	require.Negative(t, f.LostRenewals.Load(), "a third one was answered")
	v.do(chromedp.Reload()) // with the cookie of the answer that arrived
	v.reads("#account", "Log out")
}

// buyDuringRenewal: a purchase before the session is renewed waits for the renewal and opens no login dialog. No page asks for a
// login meanwhile.
func buyDuringRenewal(t *testing.T, p *scene) {
	sale := p.Publish(t, rig.Offer{Stock: 5})
	v := p.newUser()
	two := v.newTab()
	// A slow page may give up and renew again meanwhile.
	two.before(`window.answer = (a, o, real) => a.endsWith("/auth/refresh") && !window.renews && new Promise((done) => (window.go = done)).then(real)`)
	two.goTo("/orders")
	two.until(`window.go`)
	two.reads(".empty", "Loading…")
	require.False(t, evaluate[bool](two, `Boolean(document.querySelector('[data-do="login"]'))`), "no login is offered")
	two.goTo("/")
	two.until(canBuy(sale))
	two.until(`window.go`)
	two.click(buyOf(sale))
	two.until(`(await state(%q)).is === "buying" || document.querySelector("dialog")`, sale)
	require.False(t, evaluate[bool](two, `Boolean(document.querySelector("dialog"))`))
	two.run(`document.querySelector('[data-do="language"]').focus(); window.renews = true; go()`)
	two.bought(sale)
	require.Equal(t, "language", evaluate[string](two, `document.activeElement.dataset.do`), "the header is another then, and keeps the focus")
}

// repeatedPurchases: a purchase that is refused temporarily, or whose answer is lost, is retried with the same key, also after a
// reload, but not after the device has slept too long. A refusal before the start is stored under its key, so each retry uses a
// new one.
func repeatedPurchases(t *testing.T, p *scene) {
	first, second, third := p.Publish(t, rig.Offer{Stock: 5}), p.Publish(t, rig.Offer{Stock: 5}), p.Publish(t, rig.Offer{Stock: 5})
	soon := p.Publish(t, rig.Offer{Stock: 5, BeginAt: time.Now().Add(time.Hour)})
	v := p.newUser()
	keysSeen := func() []string { return evaluate[[]string](v.tab, `keys`) }

	// Each message is visible for a second or two, so an observer collects them.
	v.run(`const card = document.querySelector(%q);
		window.messages = [];
		new MutationObserver(() => messages.push(card.innerText)).observe(card, { subtree: true, childList: true, characterData: true })`, card(first))
	const purchases = "POST /api/v1/vouchers/"
	v.run(`respondWith(%q, "overloaded", "rate_limited", "unavailable", "lost", "half")`, purchases)
	v.buys(first)
	messages := evaluate[string](v.tab, `messages.join("\n")`)
	for _, message := range []string{"Buying…", "Demand is very high", "Too many requests", "temporarily unavailable", "Retrying in"} {
		assert.Contains(t, messages, message)
	}
	keys := keysSeen()
	require.Regexp(t, `^[0-9a-f]{32}$`, keys[0])
	require.Equal(t, slices.Repeat(keys[:1], 6), keys, "retries use the same key")
	rig.RequireStock(t, p.Client, first, 4)

	v.run(`respondWith(%q, ...Array(16).fill("unavailable"))`, purchases)
	v.click(buyOf(second))
	v.waitForState(second, "waiting")
	before := keysSeen()
	v.do(chromedp.Reload())
	v.until(canBuy(second))
	v.run(`respondWith(%q)`, purchases)
	v.buys(second)
	require.Equal(t, before[:1], keysSeen())
	require.NotEqual(t, keys[0], before[0], "the next purchase has a new key")
	require.Zero(t, evaluate[int](v.tab, `sessionStorage.length`), "the key is deleted when the outcome is known")

	v.run(`respondWith(%q); await (await load("shop/buy.js")).press(%q)`, purchases, soon)
	keys = keysSeen()
	require.Len(t, keys, 6)
	slices.Sort(keys)
	require.Len(t, slices.Compact(keys), 6)

	v.run(`window.answer = (a) => a.includes(%q) && count(%[1]q) === 1 && new Promise((done) => (window.go = done)).then(() => problem(503, "unavailable"))`,
		purchases+third)
	v.click(buyOf(third))
	v.until(`window.go`)
	v.run(`const real = Date.now; Date.now = () => real() + 200_000; go()`)
	v.waitForState(third, "refused")
	require.True(t, evaluate[bool](v.tab, fmt.Sprintf(`state(%q).then((s) => s.open)`, third)))
	v.reads(card(third), "Try again to find out")
}

// codeBeforeReload: a number that was mistyped can be corrected at once, although a code was sent to it. A code that was sent
// before a reload can still be entered. Fields take all of what is pasted into them.
// Source: woocommerce/woocommerce#58000, hitobito/hitobito#2874.
func codeBeforeReload(t *testing.T, p *scene) {
	phone := rig.NewPhone()
	v := p.open("/")
	v.click(`[data-do="login"]`)
	v.until(`document.querySelector("dialog[open] input[name=phone]")`)
	codeShown := `document.querySelector("dialog[open] input[name=code]").checkVisibility()`
	v.do(chromedp.SendKeys(chromedp.CSS(`dialog[open] input[name=phone]`), rig.NewPhone()))
	v.click(`dialog[open] button[type=submit]`)
	v.until(codeShown)
	v.run(`document.querySelector("dialog[open] input[name=phone]").value = ""`)
	v.do(chromedp.SendKeys(chromedp.CSS(`dialog[open] input[name=phone]`), phone))
	v.until("!" + codeShown)
	v.click(`dialog[open] button[type=submit]`)
	v.until(codeShown)
	v.pressAgain("dialog[open] button[type=submit]") // would log in
	code := evaluate[string](v.tab, `document.querySelector("dialog[open] input[name=code]").value`)
	p.LoginToken(t, phone) // another client has a newer code sent

	v.do(chromedp.Reload())
	// The limits of demo mode are less strict. When the codes of a day are used up, no code is valid until the next one.
	v.run(`window.wait = "21247"; window.answer = (a) => a.endsWith("/auth/code") && problem(429, "rate_limited", { "Retry-After": wait })`)
	v.click(`[data-do="login"]`)
	v.until(`document.querySelector("dialog[open] input[name=phone]")`)
	v.click(`dialog[open] input[name=phone]`)
	v.insert("\u202d" + phone[:3] + " " + phone[3:7] + " " + phone[7:] + "\u202c")
	v.click(`dialog[open] button[type=submit]`)
	v.reads(dialog, "Too many codes for this number. You can request the next one at ")
	require.False(t, evaluate[bool](v.tab, codeShown))
	v.run(`const { answer } = window;
		window.wait = "50"; window.answer = (a) => a.endsWith("/auth/code") && new Promise((done) => (window.late = done)).then(() => answer(a))`)
	v.click(`dialog[open] button[type=submit]`)
	v.until(`window.late`)
	v.click(`dialog[open] input[name=phone]`)
	v.insert("7")
	v.run(`late()`)
	v.reads(dialog, "A code was sent to this number moments ago.")
	require.False(t, evaluate[bool](v.tab, codeShown), "another number has been entered meanwhile")
	v.key(kb.Backspace)
	v.until(codeShown)
	v.click(`dialog[open] input[name=code]`)
	v.insert(code[:3] + " " + code[3:])
	v.click(`dialog[open] button[type=submit]`)
	v.reads("#account", "Log out")
}

// storageBlocked: a browser that blocks the storage of a site refuses locks and channels between tabs as well. Its user can
// log in and wait in a room all the same.
func storageBlocked(t *testing.T, p *scene) {
	sale := p.Room(t, rig.Offer{Stock: 5, BeginAt: time.Now().Add(5 * time.Minute)}, nil)
	v := p.open("/", `{
		const refuse = () => { throw new DOMException("no", "SecurityError"); };
		for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, { get: refuse });
		LockManager.prototype.request = async () => refuse();
		window.BroadcastChannel = class { constructor() { refuse(); } };
	}`)
	v.press(sale)
	v.login(rig.NewPhone())
	v.reads(card(sale), "You are in the waiting room")
	p.Must(t, rig.Post("/admin/vouchers/"+sale+"/room", p.Token, map[string]any{"message": "Ten more minutes, please."}))
	v.reads(card(sale), "Ten more minutes, please.")
}

// listRepeated: a response that never ends is treated as lost and repeated. Pages that receive the same information at the same
// moment spread their next requests.
func listRepeated(t *testing.T, p *scene) {
	p.Publish(t, rig.Offer{Stock: 5, BeginAt: time.Now().Add(20 * time.Second)})
	sale := p.Publish(t, rig.Offer{Stock: 5})
	v := p.open("/", `Math.random = () => 0;
		window.answer = (a, o) => a.includes("/vouchers?") && count("/vouchers?") === 1 &&
		Promise.resolve(new Response(new ReadableStream({ start: (c) => o.signal.addEventListener("abort", () => c.error(new Error("too late"))) })))`)
	v.until(canBuy(sale))
	v.until(`delays.includes(2100)`) // not every second, although the other sale starts soon
}

// moduleScenes are statements that use modules of the shop's pages, and an expression that is true in the end. They run one
// after the other in one tab, as a user whose phone is the constant phone.
var moduleScenes = []struct{ name, run, then string }{
	{
		"performance.now() may stop while a device sleeps; the next answer corrects the clock",
		`const c = await load("lib/clock.js"), at = Date.parse("2030-01-01T00:00:00Z");
		const exact = (ms) => new Headers({ "X-Server-Time": new Date(ms).toISOString() });
		window.off = [];
		for (const headers of [exact(at + 3600_000), new Headers({ Date: new Date(at + 3600_000).toUTCString() })]) {
			const now = performance.now();
			for (let i = 0; i < 8; i++) c.observe(exact(at), now - 2, now);
			c.observe(headers, now - 200, now);
			off.push(Math.abs(c.now() - (performance.now() - now) - at - 3600_000));
		}
		c.observe(exact(Date.now()), performance.now() - 2, performance.now())`,
		`off.length === 2 && off.every((ms) => ms <= 1000)`,
	},
	{
		"while a device sleeps, its clock tells the time; an answer corrects one that was set",
		`const c = await load("lib/clock.js"), real = Date.now, near = (a, b) => Math.abs(a - b) < 1000;
		const answer = () => c.observe(new Headers({ "X-Server-Time": new Date(real()).toISOString() }), performance.now() - 2, performance.now());
		answer();
		Date.now = () => real() + 3600_000;
		const woke = near(c.now(), real() + 3600_000);
		answer();
		const corrected = near(c.now(), real());
		Date.now = real;
		answer();
		window.slept = woke && corrected && near(c.now(), real())`,
		`slept`,
	},
	{
		"currencies with the same sign are distinguished, and times in another year",
		`const { money, hour } = await load("lib/i18n.js");
		window.amounts = [money(8050, "CNY"), money(80, "JPY"), money(8000, "USD")].join(" ");
		window.times = ["2026-12-30T15:00", "2027-01-02T15:00", "2027-03-02T15:00"].map((at) => hour(at, new Date("2026-12-30T12:00"))).join("; ")`,
		`amounts === "¥80.50 JP¥80 $80" && times === "15:00; Jan 2, 15:00; Mar 2, 2027"`,
	},
	{
		"what the browser has translated stays until its words change",
		`const { text } = await load("lib/dom.js");
		const chips = [["font", "Bezahlt"], ["font", "Bezahlt"], ["a", "Tea"]].map(([tag, word], i) => {
			const el = document.createElement("p"), other = document.createElement(tag);
			text(el, "Paid");
			other.append(word);
			el.replaceChildren(other);
			text(el, i === 1 ? "Redeemed" : "Paid");
			return el.textContent;
		});
		window.chips = chips.join(" ")`,
		`chips === "Bezahlt Redeemed Paid"`,
	},
	{
		"a voucher that cannot be read is not requested again on every render, but after seconds",
		`window.answer = (a) => a.endsWith("/vouchers/77") && problem(404, "not_found");
		const { one } = await load("shop/sales.js");
		for (let i = 0; i < 50; i++) { one("77"); await new Promise((done) => setTimeout(done)); }`,
		`count("/vouchers/77") < 5`,
	},
	{
		"a late answer about a sale changes no other sale, which the page shows by then",
		`const s = await load("shop/sales.js"), { get } = await load("lib/api.js");
		const [v] = (await get("/vouchers?limit=1")).items;
		window.answer = (a, o, real) => a.endsWith("/vouchers/" + v.id) && new Promise((done) => (window.late = done)).then(real);
		s.watch(v.id);
		while (!window.late) await new Promise((done) => setTimeout(done, 20));
		s.watch("70");
		late();
		await s.refresh();
		window.wrong = s.sale("70")?.title ?? "";
		s.watch()`,
		`wrong === ""`,
	},
	{
		"a new slot of the day leaves the focus on the slots, also that of a sale which another program has stored with little",
		`window.answer = (a, o, real) => a.includes("/vouchers?") && real().then(async (r) => {
			const { items } = await r.json();
			const begin_at = new Date((await load("lib/clock.js")).now() + 7200_000).toISOString();
			return new Response(JSON.stringify({ items: [...items, { ...items.find((v) => v.type === "seckill"), id: "70", begin_at, title: "", shop_id: "0", currency: "" }], next_cursor: null }));
		});
		document.querySelector(".slots button").focus();
		window.slots = document.querySelectorAll(".slots button").length;
		await (await load("shop/sales.js")).refresh()`,
		`document.querySelectorAll(".slots button").length > slots && document.activeElement.closest(".slots")`,
	},
	{
		"a button that hides with the focus passes it on to what it has added",
		`const s = await load("shop/sales.js");
		const v = s.all().find((v) => v.type === "seckill");
		window.answer = (a) => a.includes("status=ended") && Promise.resolve(new Response(JSON.stringify({
			items: ["71", "72"].map((id) => ({ ...v, id, begin_at: "2020-01-01T00:00:00Z", end_at: "2020-01-0" + id[1] + "T00:00:00Z" })), next_cursor: null,
		})));
		const past = document.querySelector('[data-do="past"]');
		past.focus();
		past.click();
		past.click()`,
		`document.activeElement.getAttribute("href") === "/sales/72" && count("status=ended") === 1`,
	},
	{
		"the list of orders reads no sale by itself, and leads from an order that has ended to one that is open",
		`const s = await load("shop/sales.js");
		window.mine = await load("shop/mine.js");
		const v = s.all().find((v) => s.stateOf(v) === "on_sale");
		window.ended = { user_id: await me(), status: "cancelled", title: v.title, created_at: v.begin_at, expires_at: v.end_at };
		requested.length = 0;
		mine.put({ ...ended, id: "55", voucher_id: v.id });
		mine.put({ ...ended, id: "56", voucher_id: "78" });
		document.querySelector('#nav a[href="/orders"]').click();
		window.leads = (id) => document.querySelector("[data-order='" + id + "'] [data-do=again]")?.checkVisibility()`,
		`leads("55") && leads("56") === false && count("/vouchers?") > 0 && count("/vouchers/") === 0`,
	},
	{
		"a title in Arabic ends with its full stop on the left",
		`mine.put({ ...ended, id: "57", voucher_id: "78", title: "شاي." });
		window.left = (i) => {
			const letter = document.createRange(), title = document.querySelector("[data-order='57'] h2 a").firstChild;
			letter.setStart(title, i);
			letter.setEnd(title, i + 1);
			return letter.getBoundingClientRect().left;
		}`,
		`left(3) < left(0)`,
	},
	{"back to the list", `document.querySelector(".brand").click()`, `document.querySelector("li.sale")`},
	{
		"event streams are opened for orders with a pending change",
		`const user_id = await me();
		window.answer = (a, o) => a.endsWith("/events") && never(o);
		mine.put({ id: "61", voucher_id: "1", user_id, status: "paid" });
		mine.put({ id: "62", voucher_id: "1", user_id, status: "refunding" })`,
		`count("/orders/62/events") > 0 && count("/orders/61/events") === 0`,
	},
	{"and for pinned orders", `mine.pin("61")`, `count("/orders/61/events") > 0`},
	{
		"an order whose redemption was undone is paid again",
		`window.undone = { id: "97", voucher_id: "1", user_id: await me(), status: "paid", created_at: new Date().toISOString(), expires_at: new Date().toISOString() };
		window.answer = (a, o) => (a.endsWith("/orders/97") ? Promise.resolve(new Response(JSON.stringify(undone))) : a.endsWith("/events") && never(o));
		mine.put({ ...undone, status: "redeemed", redeemed_at: new Date().toISOString() });
		mine.pin("97")`,
		`mine.order("97").status === "paid"`,
	},
	{
		"a buyer who returns from the payment provider sees that the payment failed, or that it is being confirmed",
		`const unpaid = { ...undone, status: "pending_payment", expires_at: "2099-01-01T00:00:00Z" };
		window.answer = (a, o) => {
			const payments = (status) => Promise.resolve(new Response(JSON.stringify({ items: [{ status }] })));
			if (a.endsWith("/events")) return never(o);
			if (a.endsWith("/94/pay")) return Promise.resolve(new Response(JSON.stringify({ order: { ...unpaid, id: "94" }, payment: { checkout_url: "#bank" } })));
			if (a.endsWith("/payments")) return payments(a.includes("/96/") ? "failed" : "pending");
		};
		mine.put({ ...unpaid, id: "94" });
		await mine.act("94", "pay");
		window.left = sessionStorage.getItem("seckill.checkout");
		for (const id of ["95", "96"]) {
			sessionStorage.setItem("seckill.checkout", id);
			mine.put({ ...unpaid, id });
		}`,
		`left === "94" && mine.doing("95").submitted && mine.doing("96").problem?.code === "payment_failed" && !sessionStorage.getItem("seckill.checkout")`,
	},
	{
		"an order that costs nothing has its code once it is paid",
		`window.answer = (a) => a.includes("/orders/93") && Promise.resolve(new Response(JSON.stringify(
			a.endsWith("/pay") ? { order: { ...undone, id: "93" }, payment: {} } : { ...undone, id: "93", redeem_code: "5V06" })));
		mine.put({ ...undone, id: "93", status: "pending_payment" });
		await mine.act("93", "pay")`,
		`mine.order("93").redeem_code === "5V06"`,
	},
	{
		"a page of orders is one change",
		`window.answer = (a) => a.includes("/orders?") && Promise.resolve(new Response(JSON.stringify({
			items: ["41", "42", "43", "44"].map((id) => ({ ...undone, id })), next_cursor: null,
		})));
		window.changes = 0;
		const off = mine.onChange(() => changes++);
		await mine.load();
		off()`,
		`changes < 3 && mine.order("44")`,
	},
	{
		"a queued order has not failed if it is missing for less than 5 seconds",
		`window.order = { id: "99", voucher_id: "1", user_id: await me(), status: "queued", created_at: new Date().toISOString(), expires_at: new Date().toISOString() };
		const since = performance.now();
		mine.put(order);
		await mine.fetchOne("99");
		window.early = mine.order("99").status === "failed" && performance.now() - since < 5000`,
		`mine.order("99").status === "failed" && !early`,
	},
	{"and recovers if it appears after that", `mine.put({ ...order, status: "pending_payment" })`, `mine.order("99").status === "pending_payment"`},
	{
		"answers of a proxy end neither an order nor the page of a sale nor the session",
		`const s = await load("shop/sales.js"), { session } = await load("lib/session.js");
		mine.put({ ...order, id: "98" });
		window.answer = (a) => a.includes("/api/") && Promise.resolve(new Response("default backend", { status: a.endsWith("/refresh") ? 401 : 404 }));
		window.unread = await mine.fetchOne("98").then(() => false, () => true);
		s.watch("70");
		for (let i = 0; i < 2; i++) await s.refresh(); // the first may be one of the list
		window.missing = s.missing;
		await session.renew().catch(() => {});
		s.watch()`,
		`unread && missing === null && document.querySelector("#account").innerText.includes("Log out")`,
	},
	{
		"the refusal of a renewal does not end a session that began after it",
		`const { session } = await load("lib/session.js");
		window.answer = (a) => a.endsWith("/auth/refresh") && new Promise((done) => (window.go = done)).then(() => problem(401, "unauthenticated"));
		const { demo: code, login_id } = await session.sendCode(phone);
		const renewal = session.renew().catch(() => {});
		while (!window.go) await new Promise((done) => setTimeout(done, 20));
		const login = session.login(phone, code, login_id);
		await Promise.race([login, new Promise((done) => setTimeout(done, 2000))]);
		go();
		await Promise.all([renewal, login])`,
		`document.querySelector("#account").innerText.includes(phone.slice(-4))`,
	},
	{
		"a page reopens the stream of an expired token at once where it ended, and shows no event of its own",
		`window.seen = []; window.resumed = []; window.end = new AbortController();
		window.answer = (a, o) => {
			if (!a.endsWith("/x/events")) return;
			resumed.push(new Headers(o.headers).get("Last-Event-ID"));
			if (resumed.length > 1) return never(o);
			const text = "event: order\nid: 5\ndata: {}\n\nevent: reauth\ndata: {}\n\n";
			return Promise.resolve(new Response(text, { headers: { "Content-Type": "text/event-stream" } }));
		};
		Math.random = () => 1;
		delays.length = 0;
		(await load("lib/session.js")).session.token = async () => "x";
		(await load("lib/stream.js")).follow("/x/events", { signal: end.signal, onEvent: (e) => seen.push(e.event) })`,
		`resumed.length === 2 && resumed[1] === "5" && seen.join() === "order" && !delays.includes(3000)`,
	},
	{
		"a broken stream is opened again after a pause",
		`end.abort(); window.end = new AbortController();
		window.answer = (a) => a.endsWith("/x/events") && Promise.resolve(new Response("", { headers: { "Content-Type": "text/event-stream" } }));
		(await load("lib/stream.js")).follow("/x/events", { signal: end.signal, onEvent() {} })`,
		`delays.includes(3000)`,
	},
}

func modules(t *testing.T, p *scene) {
	v := visit(t, p.URL, "en", fmt.Sprintf(`window.phone = %q`, rig.NewPhone()))
	v.loginNewUser()
	for _, scene := range moduleScenes {
		t.Log(scene.name)
		v.do(chromedp.Evaluate[chromedp.Void](`window.answer = null`))
		v.run("%s", scene.run)
		v.until("%s", scene.then)
	}
	v.run(`end.abort()`)
}
