package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// orderWithPass checks the button of a sale that needs passes: it gets a pass first, gets another one once if the
// server refuses it, and then shows the reason.
func orderWithPass(t *testing.T, p *scene) {
	var sales [4]string
	for i := range sales {
		sales[i] = p.Publish(t, rig.Offer{Stock: 5, Entry: rig.Passes})
	}
	first, second, third, fourth := sales[0], sales[1], sales[2], sales[3]
	v := p.newUser()
	press := func(sale, done string, entries, orders int) {
		v.press(sale)
		v.waitForState(sale, done)
		require.Equal(t, []int{entries, orders}, evaluate[[]int](v.tab, fmt.Sprintf(`[count(%q), count(%q)]`, sale+"/entry", sale+"/orders")), sale)
	}
	press(first, "bought", 1, 1)

	v.run(`window.answer = (a) => a.endsWith(%q) && count(%[1]q) === 1 && problem(403, "entry_required")`, second+"/orders")
	press(second, "bought", 2, 2)

	v.run(`window.answer = (a) => a.endsWith(%q) && problem(403, "entry_required")`, third+"/orders")
	press(third, "refused", 2, 2)
	v.reads(card(third), "Your entry pass was not accepted")

	v.run(`window.answer = (a) => a.endsWith(%q) && problem(409, "unpaid_limit")`, fourth+"/entry")
	press(fourth, "refused", 1, 0)
	v.reads(card(fourth), "Too many of your orders are unpaid")
	v.run(`window.answer = (a) => a.endsWith(%q) && problem(429, "rate_limited", { "Retry-After": "600" })`, fourth+"/entry")
	press(fourth, "refused", 2, 0) // the page does not wait for ten minutes
	v.reads(card(fourth), "Too many requests. You can try again at ")
	v.click(`[data-do="language"]`)
	v.reads(card(third), "入场凭证已失效")
	v.reads(card(fourth), "请求太频繁，请于 ")
}

// TestBuyWithChallenge checks the proof of work of the storefront. The page solves a challenge before the start and
// announces it, so that the press needs no work. It solves another one if the server refuses the solution, and reports
// a browser that cannot solve any.
//
// It has a server of its own: the pages of all visitors of a server request challenges.
func TestBuyWithChallenge(t *testing.T) {
	env.FullParallel(t)
	p := rig.EmbeddedStack(t).Serve(t).Shop(t)
	publish := func(begin time.Time) string {
		return p.Publish(t, rig.Offer{Stock: 5, BeginAt: begin, Entry: map[string]any{"mode": "pass", "challenge": "on"}})
	}
	early, late, never := publish(time.Now().Add(time.Hour)), publish(time.Time{}), publish(time.Time{})
	f := startFront(t, p.URL)
	f.Modules = true
	v := visit(t, f.URL, "en")
	entries := func(sale string) int {
		return evaluate[int](v.tab, fmt.Sprintf(`count(%q)`, "/"+sale+"/entry"))
	}
	v.loginNewUser()

	p.Change(t, early, map[string]any{"begin_at": time.Now().Add(40 * time.Second)})
	v.until(`/^00:00:/.test(document.querySelector(%q).innerText)`, card(early)+" .time")
	require.Zero(t, entries(early), "the list of all sales requests no challenge")
	p.Change(t, early, map[string]any{"begin_at": time.Now().Add(time.Hour)})
	v.goTo("/sales/" + early)
	v.collectsAnnouncements()
	v.until(`/^00:5/.test(document.querySelector(%q).innerText)`, card(early)+" .time")
	require.Zero(t, entries(early), "the start is far away")
	require.Eventually(t, func() bool {
		p.Change(t, early, map[string]any{"begin_at": time.Now().Add(40 * time.Second)}) // however slow the machine is
		return strings.Contains(v.text(card(early)+" .note"), "Security check complete.")
	}, pageTimeout, 500*time.Millisecond)
	v.until(`announced.includes("Security check complete.")`)
	require.Equal(t, 1, entries(early))
	require.Equal(t, "upcoming", evaluate[string](v.tab, fmt.Sprintf(`document.querySelector(%q).dataset.state`, card(early))))
	p.Change(t, early, map[string]any{"begin_at": time.Now().Add(-time.Second)})
	v.until(canBuy(early))
	v.tabTo(buyOf(early))
	v.key(kb.Enter)
	v.waitForState(early, "bought")
	require.Contains(t, []int{2, 3}, entries(early), "one for the challenge, one with the solution, which the page repeats after a 503")

	v.click(`#nav a[href="/"]`)
	v.until(canBuy(late))

	// The page waits with the challenge of a sale that has been on for a while. The answer to the first entry is lost,
	// the second uses the same solution, the third has a new one.
	require.Zero(t, entries(late))
	v.run(`window.answer = (a, o, real) => a.endsWith(%q) && o.body && count(%q) === 2 && real().then(() => { throw new TypeError("lost") })`,
		"/"+late+"/entry", "/"+late+"/entry")
	v.click(buyOf(late))
	v.waitForState(late, "bought")
	require.Equal(t, 4, entries(late))

	// A solution that is about to expire is not used again.
	for seconds, requests := range map[int]int{60: 1, 5: 2} {
		sale := fmt.Sprint("none-", seconds)
		v.run(`const human = await load("shop/human.js"), clock = await load("lib/clock.js");
			const parameters = { nonce: "00", salt: "00", cost: 1, keyLength: 1, keyPrefix: "", expiresAt: clock.now() / 1000 + %d };
			window.answer = (a) => a.endsWith(%q) && Promise.resolve(new Response(JSON.stringify({ code: "challenge_required", challenge: { parameters } }), { status: 403 }));
			await human.solution(%[3]q);
			await human.solution(%[3]q)`, seconds, "/"+sale+"/entry", sale)
		require.Equal(t, requests, entries(sale))
	}

	v.run(`window.Worker = class { constructor() { throw new Error("no workers") } }`)
	v.click(buyOf(never))
	v.waitForState(never, "refused")
	v.reads(card(never)+" .note", "The security check did not succeed.")
	require.Equal(t, 1, entries(never))

	// The page above has loaded its modules one by one. The bundle finds the worker as well.
	bundled := visit(t, p.URL, "en")
	bundled.goTo("/")
	bundled.buy(late, rig.NewPhone())
	bundled.reads(card(late), "You got it!")
}

func hasFocus(selector string) string {
	return fmt.Sprintf(`document.activeElement === document.querySelector(%q)`, selector)
}

// roomJourney takes two buyers by keyboard through a sale with one unit: both wait in the lobby, one buys, the other keeps the
// place while the sale is sold out, is admitted when a unit is added, and leaves.
func roomJourney(t *testing.T, p *scene) {
	sale := p.Room(t, rig.Offer{Stock: 1, BeginAt: time.Now().Add(time.Hour)}, map[string]any{
		"opens_at": time.Now().Add(-time.Minute).UTC().Format(time.RFC3339),
	})
	v, waits := p.shopping(sale), p.shopping(sale)
	for _, buyer := range []*visitor{v, waits} {
		buyer.collectsAnnouncements()
		buyer.buyByKeyboard(sale)
		buyer.reads(resultOf(sale, "waiting"), "You are in the waiting room")
		buyer.until(`document.title.startsWith("Waiting · ") && announced.includes("You are in the waiting room")`)
		buyer.run(`document.activeElement.blur()`)
	}
	p.Change(t, sale, map[string]any{"begin_at": time.Now().Add(-time.Second).UTC().Format(time.RFC3339)})

	deadline := time.Now().Add(pageTimeout)
	for !evaluate[bool](v.tab, canBuy(sale)) {
		require.True(t, time.Now().Before(deadline), "no buyer is admitted")
		v, waits = waits, v
	}
	v.until(hasFocus(buyOf(sale)))
	v.reads(resultOf(sale, "turn"), "It's your turn!")
	v.until(`document.title.startsWith("Your turn! · ") && announced.includes("It's your turn!")`)

	waits.reads(resultOf(sale, "waiting")+" .figure", "1")
	waits.until(`document.title.startsWith("No. 1 · ") && announced.includes("Your position: 1")`)
	require.False(t, evaluate[bool](waits.tab, canBuy(sale)))

	v.key(kb.Enter)
	v.until(hasFocus(linkOf(sale)))
	v.reads(resultOf(sale, "won"), "You got it!")
	v.until(`!document.title.includes("Your turn!")`)

	waits.reads(card(sale)+" .note", "A unit may come back")
	waits.do(chromedp.Reload())
	waits.reads(card(sale)+" .note", "A unit may come back") // the place survives a reload
	waits.tabTo(`[data-do="language"]`)
	p.Must(t, rig.Post("/admin/vouchers/"+sale+"/stock", p.Token, map[string]any{"delta": 1, "reason": "came back"}))
	waits.reads(resultOf(sale, "turn"), "It's your turn!")
	require.True(t, evaluate[bool](waits.tab, hasFocus(`[data-do="language"]`)), "the focus stays where the buyer needs it")

	waits.tabTo(card(sale) + ` [data-do="leave"]`)
	waits.key(kb.Enter)
	waits.until(`document.querySelector("dialog[open]")?.contains(document.activeElement)`)
	waits.key(kb.Tab)
	waits.key(kb.Enter)
	waits.reads(buyOf(sale), "Join")
	waits.until(hasFocus(buyOf(sale)))
	require.Zero(t, evaluate[int](waits.tab, `Object.keys(localStorage).filter((name) => name.startsWith("seckill.place.")).length`))
}

// collectsAnnouncements keeps all announcements of the page in the variable announced: those of other sales follow.
func (b *tab) collectsAnnouncements() {
	b.t.Helper()
	b.run(`window.announced = ""; new MutationObserver(() => announced += live.innerText + "\n").observe(live, { childList: true, characterData: true, subtree: true })`)
}

// roomInTwoTabs checks that tabs share a place and one stream, and that another tab takes over when the one with the
// stream is left. The sale has a challenge, which the page solves to join.
func roomInTwoTabs(t *testing.T, p *scene) {
	sale := p.Room(t, rig.Offer{Stock: 5, BeginAt: time.Now().Add(5 * time.Minute)}, map[string]any{"challenge": "on"})
	v := p.newUser()
	one, two := v.tab, v.newTab()
	two.goTo("/")
	one.click(buyOf(sale))
	const inLobby = "You are in the waiting room"
	one.reads(card(sale), inLobby)
	two.reads(card(sale), inLobby)
	streams := func(b *tab) int { return evaluate[int](b, `count("/entry/events")`) }
	rig.Eventually(t, "one tab streams", func() bool { return streams(one)+streams(two) > 0 })
	three := v.newTab()
	three.goTo("/")
	three.reads(card(sale), inLobby) // from the tab with the stream
	require.Equal(t, 1, streams(one)+streams(two))

	if streams(two) == 1 {
		one, two = two, one
	}
	one.do(chromedp.Navigate("about:blank"))
	two.collectsAnnouncements()
	three.collectsAnnouncements()
	p.Must(t, rig.Post("/admin/vouchers/"+sale+"/room", p.Token, map[string]any{"message": "Ten more minutes, please."}))
	for _, b := range []*tab{two, three} {
		b.reads(card(sale), "Ten more minutes, please.")
		b.until(`announced.includes("Ten more minutes, please.")`)
	}
}

// stubRoom is a script that answers for a waiting room in place of the server: `joined` is the answer to POST entry,
// push sends an event to the page, and cut breaks the connection until a time in the future.
const stubRoom = `{
	const reply = (status, body) => Promise.resolve(new Response(JSON.stringify(body), { status }));
	let events = null, down = false;
	const open = (o) => Promise.resolve(new Response(new ReadableStream({ start(c) {
		events = c;
		o.signal.addEventListener("abort", () => c.error(new Error("aborted")));
	} }), { headers: { "Content-Type": "text/event-stream" } }));
	window.push = (event, data) => events.enqueue(new TextEncoder().encode("event: " + event + "\ndata: " + JSON.stringify(data) + "\n\n"));
	window.cut = () => { down = true; events.error(new TypeError("cut")); };
	window.restore = () => { down = false; events = null; dispatchEvent(new Event("online")); };
	window.streaming = () => events !== null;
	window.answer = (a, o) => {
		if (a.endsWith("/entry/events")) return down ? Promise.reject(new TypeError("cut")) : open(o);
		if (a.startsWith("POST") && a.endsWith("/entry")) return reply(202, joined);
		if (a.startsWith("GET") && a.endsWith("/entry") && window.found) return reply(200, found);
		if (a.startsWith("GET") && a.endsWith("/entry")) return window.outage ? problem(503, "unavailable") : problem(403, "entry_required");
	};
}`

// roomRefusals covers what interrupts or ends a place: a lost connection, a pause, a refused pass, a lost place.
func roomRefusals(t *testing.T, p *scene) {
	later := p.Room(t, rig.Offer{Stock: 5, BeginAt: time.Now().Add(5 * time.Minute)}, map[string]any{
		"opens_at": time.Now().Add(2 * time.Minute).UTC().Format(time.RFC3339),
	})
	sale := p.Room(t, rig.Offer{Stock: 5}, nil)
	v := p.newUser()
	v.reads(card(later)+" .note", "The waiting room opens in 00:0")
	require.False(t, evaluate[bool](v.tab, canBuy(later)))

	note := card(sale) + " .note"
	v.run(stubRoom + `; window.joined = { state: "waiting", ticket: "t", position: 3, ahead: 2, eta_seconds: 150 }`)
	v.click(buyOf(sale))
	v.reads(card(sale)+" .figure", "3")
	v.reads(note, "Ahead of you: 2. Estimated wait: about 3 min.")
	v.until(`streaming()`)
	v.run(`cut()`)
	v.reads(note, "Connection lost. Your place is kept.")
	v.reads(card(sale)+" .figure", "3")
	v.run(`restore()`)
	v.until(`streaming()`)
	v.run(`push("entry", { state: "waiting", position: 1, ahead: 0 })`)
	v.reads(note, "You're next. All units are reserved by customers before you.") // no time, as the server knows none
	v.reads(card(sale)+" .stock", "5 reserved")
	v.run(`push("entry", { state: "waiting", position: 1, ahead: 0, paused: true, message: "Back at noon." })`)
	v.reads(note, "You're next. The shop has paused admissions.")
	v.reads(card(sale)+" [data-message]", "Back at noon.")

	// A sale that is sold out has no stream. The page asks now and then, so that the buyer counts as present.
	v.run(`delays.length = 0; window.streams = count("/entry/events"); window.found = { state: "waiting", position: 1, ahead: 0 }; push("end", { code: "sold_out" })`)
	v.reads(note, "A unit may come back.")
	v.until(`delays.includes(8000)`)
	v.run(`dispatchEvent(new Event("online"))`) // in place of the pause
	v.until(`requested.some((a) => a.startsWith("GET") && a.endsWith("/entry"))`)
	v.reads(note, "You're next.")
	require.Equal(t, evaluate[int](v.tab, `streams`), evaluate[int](v.tab, `count("/entry/events")`))
	v.run(`dispatchEvent(new Event("online"))`)
	v.until(`count("/entry/events") > streams`)
	v.run(`window.found = null`)

	// The pass expires during an outage, after which the server gives another one. Source: cloudflare/cloudflare-docs#16645.
	v.run(`window.outage = true; push("entry", { state: "admitted", pass: "p", expires_at: new Date(Date.now() + 2000).toISOString() })`)
	v.until(canBuy(sale))
	v.reads(note, "Connection lost. Your place is kept.")
	v.until("!" + canBuy(sale)) // the note may come in the last millisecond of the pass
	v.run(`window.outage = false`)

	v.run(`push("entry", { state: "admitted", pass: "no pass of this server", expires_at: new Date(Date.now() + 90_000).toISOString() })`)
	v.until(canBuy(sale))
	v.reads(resultOf(sale, "turn"), "It's your turn!", "Buy within 01:")
	v.legible(t, "turn")
	v.click(buyOf(sale))
	v.reads(resultOf(sale, "lost"), "Your place is gone")
	v.reads(buyOf(sale), "Join again")

	v.run(`answer = (a, o) => a.endsWith("/entry/events") && never(o)`) // the page does not learn of the revocation
	v.click(buyOf(sale))
	v.run(`window.rooms = await load("shop/rooms.js")`)
	v.until(`["lobby", "waiting"].includes(rooms.place(%q).is)`, sale)
	v.until(`await rooms.renew(%q)`, sale)
	p.Must(t, rig.Post("/admin/vouchers/"+sale+"/room", p.Token, map[string]any{"revoke": true}))
	v.click(buyOf(sale))
	v.reads(card(sale), "You got it!")
}

// pressAgain is the second press of a double click.
func (b *tab) pressAgain(selector string) {
	b.t.Helper()
	b.until(`document.querySelector(%q)`, selector)
	b.run(`document.querySelector(%q).dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, detail: 2 }))`, selector)
}

// roomInConsole publishes a sale with a waiting room, acts on it while a buyer waits, and opens it to all in the end.
func roomInConsole(t *testing.T, c *scene) {
	v := c.enter("/console/new")
	v.until(`document.querySelector('[data-field="entry.rate"]')?.checkVisibility() === false`) // open sales have no room
	v.fill("make", "entry.mode", "room")
	v.click(advanced)
	begin := time.Now().Add(5 * time.Minute).Truncate(time.Minute)
	v.send("make", "title", t.Name(), "shop_id", "1", "pay_value", "1", "actual_value", "2", "stock", "3", "begin_at", local(begin),
		"entry.opens_at", local(begin.Add(time.Minute)), "entry.rate", "10001", "entry.pass_ttl", "3601", "pay_timeout", "0:00", "unpaid_limit", "2")
	v.errors("make", "entry.rate", "between 1 and 10,000", "entry.pass_ttl", "between 1 and 3,600", "pay_timeout", "between 0:01 and 1440")
	v.send("make", "entry.rate", "7", "entry.pass_ttl", "", "pay_timeout", "")
	v.reads(fieldError("make", "entry.opens_at"), "must not open after the start")
	v.send("make", "entry.opens_at", "")
	sale := v.publishDraft()
	v.reads(`[data-fact="entry.mode"]`, "Waiting room")
	v.reads(`[data-fact="unpaid_limit"]`, "2")
	entry := func() map[string]any {
		return c.Must(t, rig.Get("/vouchers/"+sale, ""))["entry"].(map[string]any)
	}
	require.Equal(t, map[string]any{
		"mode": "room", "pass_ttl": 120.0, "rate": 7.0, "opens_at": begin.Add(-10 * time.Minute).UTC().Format(time.RFC3339),
	}, entry())

	f := startFront(t, c.URL)
	f.Modules = true
	buyer := visit(t, f.URL, "en")
	buyer.goTo("/")
	buyer.press(sale)
	buyer.login(rig.NewPhone())
	buyer.reads(card(sale), "You are in the waiting room")
	figure := func(name, value string) {
		v.until(`document.querySelector('%s')?.innerText === %q`, fact("room."+name), value)
	}
	figure("lobby", "1")
	figure("present", "1")
	v.send("message", "message", "The kitchen is on fire.")
	v.reads("[data-room]", "Waiting customers see the message within a second.")
	buyer.reads(card(sale)+" [data-message]", "The kitchen is on fire.")
	v.click(`[data-do="pause"]`)
	v.reads("[data-room] .chip", "Paused")
	v.pressAgain(`[data-do="pause"]`)
	buyer.reads(card(sale)+" .note", "The shop has paused admissions")
	v.send("rate", "rate", "25")
	figure("rate", "25")
	require.Equal(t, []any{25.0, true}, []any{entry()["rate"], entry()["paused"]}, "a double click pauses")

	// Live updates keep unsaved input and the focus.
	v.fill("message", "message", "half written")
	seconds := evaluate[string](v.tab, `document.querySelector("[data-live]").dataset.seconds`)
	v.until(`document.querySelector("[data-live]").dataset.seconds - %s > 3`, seconds)
	require.Equal(t, "message", evaluate[string](v.tab, `document.activeElement.name`))
	require.Equal(t, "half written", evaluate[string](v.tab, `document.activeElement.value`))

	c.Change(t, sale, map[string]any{"begin_at": time.Now().Add(-time.Minute)})
	buyer.reads(card(sale)+" .figure", "1") // nobody is admitted
	figure("waiting", "1")
	v.legible(t, "room")
	v.click(`[data-do="pause"]`)
	v.reads("[data-room] .chip", "Admitting")
	buyer.until(canBuy(sale))
	figure("admitted", "1")
	figure("outstanding", "1")

	pass := `load("shop/rooms.js").then((m) => m.place("` + sale + `").pass)`
	first := evaluate[string](buyer.tab, pass)
	v.click(`[data-do="revoke"]`)
	v.pressAgain(dialog + " button.primary") // which may have opened under the pointer
	v.confirm()
	v.reads("main", "All passes are void")
	buyer.until(`await %s !== %q`, pass, first)
	buyer.buys(sale)
	figure("used", "1")
	require.Equal(t, map[string]any{"mode": "room", "pass_ttl": 120.0, "rate": 25.0, "opens_at": entry()["opens_at"], "message": "The kitchen is on fire."}, entry())

	// A form that was opened before another admin changed the room sends what was edited in it, and nothing else.
	v.goTo("/console/sales/" + sale + "/edit")
	v.until(`document.querySelector('form[data-form="change"] [name="entry.rate"]')?.value === "25"`)
	v.click(`[data-do="language"]`)
	v.send("change", "begin_at", local(time.Now().Add(time.Minute)))
	v.reads(errorBox, "等候室已在开抢时抽签")
	v.click(`[data-do="language"]`)
	v.send("change", "begin_at", local(env.Must(time.Parse(time.RFC3339, c.Must(t, rig.Get("/vouchers/"+sale, ""))["begin_at"].(string)))(t)))
	c.Change(t, sale, map[string]any{"entry": map[string]any{"mode": "room", "rate": 40, "challenge": "on"}})
	v.click(advanced)
	v.send("change", "entry.pass_ttl", "60")
	v.reads(`form[data-form="change"]`, "Saved")
	require.Equal(t, []any{60.0, 40.0, "on"}, []any{entry()["pass_ttl"], entry()["rate"], entry()["challenge"]})
	v.send("change", "entry.challenge", "off", "entry.pass_ttl", "")
	rig.Eventually(t, "the change", func() bool { return entry()["pass_ttl"] == 120.0 && entry()["challenge"] == nil })

	v.send("change", "entry.mode", "open", "unpaid_limit", "0", "pay_timeout", "1:30")
	rig.Eventually(t, "the sale is open", func() bool { return entry()["mode"] == "open" })
	stored := c.Must(t, rig.Get("/vouchers/"+sale, ""))
	require.Equal(t, []any{90.0, 0.0}, []any{stored["pay_timeout"], stored["unpaid_limit"]})
	v.click(`main header a[href="/console/sales/` + sale + `"]`)
	v.reads(`[data-fact="entry.mode"]`, "Open")
	v.until(`!document.querySelector('[data-do="revoke"]').checkVisibility()`)
}
