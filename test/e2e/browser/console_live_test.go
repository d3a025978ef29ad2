package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// fact returns the selector of a figure of a sale or a rush.
func fact(name string) string { return fmt.Sprintf(`dd[data-fact=%q]`, name) }

// judged waits until an invariant has a verdict.
func (b *tab) judged(invariant, verdict string) {
	b.t.Helper()
	b.until(`document.querySelector('[data-invariant="%s"]')?.dataset.ok === %q`, invariant, verdict)
}

// legendValue returns the selector of the n-th value in the legend of a plot.
func legendValue(plot string, n int) string {
	return fmt.Sprintf(`[data-plot=%q] .legend li:nth-child(%d) b`, plot, n)
}

// saleLive checks the live view of a sale: figures and plots. TestConsoleAlerts shows a violated invariant.
func saleLive(t *testing.T, c *consoleTest) {
	s := c.Stack.Fresh(t).WithAdmins()
	p := s.Serve(t).Shop(t)
	sale, tokens := p.Publish(t, rig.Offer{Stock: 5}), s.Tokens(t, 8)
	v := c.visit(p.URL, "en")
	for _, token := range tokens {
		p.Once(t, rig.Purchase(sale, token))
	}
	v.enter("/console/sales/"+sale, c.phone)
	v.until(`document.querySelector("[data-live]")?.dataset.state === "live"`)
	v.click("[data-technical] summary")

	// What happened before the page was opened is there.
	v.until(`document.querySelector('[data-plot="rate"] .canvas').ariaLabel.includes("Orders 5, Rejected 3.")`)
	v.until(`document.querySelector('[data-plot="sold"] .canvas').ariaLabel.includes("Placed 5.")`)
	v.until(`document.querySelector('%s')?.innerText === "0"`, legendValue("left", 1))
	v.reads(".takings .sold", "5 of 5")
	for _, invariant := range []string{"I1", "I2", "I3", "I5"} {
		v.judged(invariant, "holds")
		v.reads(fmt.Sprintf(`[data-invariant=%q]`, invariant), "✓", "holds")
	}
	v.until(`document.querySelector('%s')?.innerText === "5"`, fact("pending_payment"))
	v.until(`document.querySelector('%s')?.innerText === "0"`, fact("database"))
	v.until(`document.querySelector('%s')?.innerText === "0"`, legendValue("stock", 1))
	v.until(`document.querySelector('[data-plot="orders"] .canvas').ariaLabel.includes("Committed 5.")`)
	v.until(`document.querySelector('[data-plot="refusals"] .canvas').ariaLabel.includes("Sold out 3.")`)
	v.until(`document.querySelectorAll(".live tbody tr").length === 10`)
	live := `document.querySelector("[data-live]").dataset`
	require.Equal(t, "0", evaluate[string](v.tab, live+".holes"))
	v.until(`[...document.querySelectorAll(".plot canvas")].filter((c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(Boolean)).length === 8`) // the queue has a plot of its own, in lane queue
}

// hourOfSale checks how the page joins the hour of the server with the seconds that it receives: a period counts once.
func hourOfSale(t *testing.T, c *consoleTest) {
	v := c.visit(c.URL, "en")
	v.goTo("/console")
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
}

// liveReconnect checks that the page reports a lost connection and has no gap after it is restored.
func liveReconnect(t *testing.T, c *consoleTest) {
	f := startFront(t, c.URL)
	sale := c.Publish(t, rig.Offer{Stock: 5})
	v := c.visit(f.URL, "en")
	v.enter("/console/sales/"+sale, c.phone)
	v.until(`document.querySelector("[data-live]")?.dataset.state === "live"`)
	f.Cut()
	v.until(`document.querySelector("[data-live]").dataset.state === "stale"`)
	v.reads("[data-stale]", "No data since")
	token := c.LoginToken(t, rig.NewPhone())
	c.Buy(t, token, sale) // while the connection is down
	f.Restore()
	v.until(`document.querySelector("[data-live]").dataset.state === "live"`)
	v.until(`document.querySelector('%s')?.textContent === "4"`, fact("database"))
	require.False(t, evaluate[bool](v.tab, `document.querySelector("[data-stale]").checkVisibility()`))
	require.Equal(t, "0", evaluate[string](v.tab, `document.querySelector("[data-live]").dataset.holes`))
}

// TestConsoleRush runs a rush from the console to its verdicts.
func TestConsoleRush(t *testing.T) {
	env.Full(t)
	t.Parallel()
	browser := startBrowser(t)
	s := rig.RealStack(t).WithAdmins().In("queue")
	p := s.Serve(t)
	v := visit(t, browser, p.URL, "en")
	v.enter("/console/rush", rig.AdminPhones[0])
	v.send("rush", "buyers", "0", "stock", "x")
	v.reads(fieldError("rush", "buyers"), "between 1 and")
	v.reads(fieldError("rush", "stock"), "whole number")
	v.send("rush", "buyers", "400", "stock", "60", "for", "1")
	v.until(`document.querySelector("[data-live]")?.dataset.state === "live"`) // the rush may have ended by now
	v.until(`document.querySelector("[data-rush]").dataset.rush === "done"`)
	v.reads("[data-rush] "+fact("answered"), "400 of 400")
	v.reads("[data-rush] "+fact("orders"), "60 of 60")
	verdicts := `[...document.querySelectorAll("[data-rush] [data-invariant]")]`
	require.GreaterOrEqual(t, evaluate[int](v.tab, verdicts+`.length`), 3)
	require.True(t, evaluate[bool](v.tab, verdicts+`.every((li) => li.dataset.ok === "holds" && li.innerText.includes("✓"))`))
	v.click("[data-technical] summary")
	v.until(`document.querySelector('[data-plot="orders"] .canvas').ariaLabel.includes("Committed 60")`)
	v.until(`document.querySelector('.live %s')?.innerText === "0"`, fact("database"))
	v.until(`[...document.querySelectorAll(".live [data-invariant]")].every((li) => li.dataset.ok === "holds")`)
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
func rushOutsideDemo(t *testing.T, c *consoleTest) {
	r := rig.StartCodeReceiver(t)
	s := rig.EmbeddedStack(t).WithAdmins().CodesTo(r)
	key := s.Enroll(t, c.phone)
	p := s.Serve(t)
	v := c.visit(p.URL, "en")
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
	password, err := totp.GenerateCode(key, time.Now())
	require.NoError(t, err)
	v.key(password + "\r")
	v.reads("[data-nodemo]", "This server is not in demo mode")
	require.Zero(t, evaluate[int](v.tab, `document.querySelectorAll("form").length`))
}
