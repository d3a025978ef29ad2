package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestBuyWithChallenge checks the proof of work of the storefront. The page solves a challenge before the start and
// announces it, so that the press needs no work. It solves another one if the server refuses the solution, and reports
// a browser that cannot solve any.
//
// It has a server of its own: the pages of all visitors of a server request challenges.
func TestBuyWithChallenge(t *testing.T) {
	env.Full(t)
	t.Parallel()
	p := rig.EmbeddedStack(t).Serve(t).Shop(t)
	publish := func(begin time.Time) string {
		sale := p.Publish(t, rig.Offer{Stock: 5, BeginAt: begin})
		p.Change(t, sale, map[string]any{"entry": map[string]any{"mode": "pass", "challenge": "on"}})
		return sale
	}
	early, late, never := publish(time.Now().Add(time.Hour)), publish(time.Time{}), publish(time.Time{})
	v := visit(t, startBrowser(t), p.URL, "en")
	v.intercept()
	v.before(`addEventListener("DOMContentLoaded", () => { window.said = [];
		new MutationObserver(() => said.push(live.textContent)).observe(live, { childList: true, characterData: true, subtree: true }); })`)
	entries := func(sale string) int {
		return evaluate[int](v.tab, fmt.Sprintf(`count(%q)`, "/"+sale+"/entry"))
	}
	v.loginNewUser()

	p.Change(t, early, map[string]any{"begin_at": time.Now().Add(40 * time.Second)})
	v.until(`/^00:00:/.test(document.querySelector(%q).innerText)`, card(early)+" .time")
	require.Zero(t, entries(early), "the list of all sales requests no challenge")
	p.Change(t, early, map[string]any{"begin_at": time.Now().Add(time.Hour)})
	v.goTo("/sales/" + early)
	v.until(`/^00:5/.test(document.querySelector(%q).innerText)`, card(early)+" .time")
	require.Zero(t, entries(early), "the start is far away")
	for range 100 { // keep the start 40 s ahead, however slow the machine is
		p.Change(t, early, map[string]any{"begin_at": time.Now().Add(40 * time.Second)})
		if strings.Contains(v.text(card(early)+" .note"), "complete") {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	v.reads(card(early)+" .note", "Security check complete.")
	v.until(`said.some((text) => text.includes("Security check complete."))`)
	require.Equal(t, 1, entries(early))
	require.Equal(t, "upcoming", evaluate[string](v.tab, fmt.Sprintf(`document.querySelector(%q).dataset.state`, card(early))))
	v.click(`[data-do="language"]`)
	v.reads(card(early)+" .note", "安全检测已完成。")
	v.click(`[data-do="language"]`)
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
		v.run(`const proof = await load("proof/prove.js"), clock = await load("lib/clock.js");
			const parameters = { nonce: "00", salt: "00", cost: 1, keyLength: 1, keyPrefix: "", expiresAt: clock.now() / 1000 + %d };
			window.answer = (a) => a.endsWith(%q) && Promise.resolve(new Response(JSON.stringify({ code: "challenge_required", challenge: { parameters } }), { status: 403 }));
			await proof.proveHuman(%[3]q);
			await proof.proveHuman(%[3]q)`, seconds, "/"+sale+"/entry", sale)
		require.Equal(t, requests, entries(sale))
	}

	v.run(`window.Worker = class { constructor() { throw new Error("no workers") } }`)
	v.click(buyOf(never))
	v.waitForState(never, "refused")
	v.reads(card(never)+" .note", "The security check did not succeed.")
	require.Equal(t, 1, entries(never))

	// The page above has loaded its modules one by one. The bundle finds the worker as well.
	bundled := visit(t, startBrowser(t), p.URL, "en")
	bundled.goTo("/")
	bundled.buy(late, rig.NewPhone())
	bundled.reads(card(late), "You got it!")
}
