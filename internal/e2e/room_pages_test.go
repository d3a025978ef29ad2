package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// room publishes a sale with a waiting room.
func (p *shop) room(t *testing.T, o offer, entry map[string]any) string {
	t.Helper()
	sale := p.publish(t, o)
	if entry == nil {
		entry = map[string]any{}
	}
	entry["mode"] = "room"
	p.change(t, sale, map[string]any{"entry": entry})
	return sale
}

// joinByKeyboard joins the waiting room of a sale as a new user, without a mouse.
func (b *tab) joinByKeyboard(sale string) {
	b.t.Helper()
	b.until(canBuy(sale))
	b.tabTo(buyOf(sale))
	b.key(kb.Enter)
	b.until(`document.activeElement?.name === "phone"`)
	b.key(newPhone())
	b.key(kb.Enter)
	b.until(`document.activeElement?.name === "code" && document.activeElement.value.length === 6`)
	b.key(kb.Enter)
	b.until(`document.querySelector(%q)?.checkVisibility()`, leaveOf(sale))
}

func leaveOf(sale string) string { return card(sale) + ` [data-do="leave"]` }

// hasFocus is an expression that is true if an element has the focus.
func hasFocus(selector string) string {
	return fmt.Sprintf(`document.activeElement === document.querySelector(%q)`, selector)
}

// roomTexts are the texts of a waiting room in one language.
type roomTexts struct {
	lobby, badgeLobby, turn, badgeTurn, reserved, position, badge, soldOut, join string
}

var textsOfRoom = map[string]roomTexts{
	"en": {
		"You are in the waiting room", "Waiting · ", "It is your turn", "Your turn! · ", "Reserved for you", "Your position: 1", "No. 1 · ",
		"A unit may come back", "Join the waiting room",
	},
	"zh": {
		"已进入等候室", "等候中 · ", "轮到你了", "轮到你了！ · ", "抢到了", "你排在第 1 位", "第 1 位 · ", "如有名额退回", "进入等候室",
	},
}

// roomJourney takes two buyers, in two languages and by keyboard, through a sale with one unit: both wait in the lobby,
// one buys, the other keeps the place while the sale is sold out, is admitted when a unit is added, and leaves.
func roomJourney(t *testing.T, p *shop, visit func(url, language string) *visitor) {
	sale := p.room(t, offer{Stock: 1, BeginAt: time.Now().Add(time.Hour)}, map[string]any{
		"opens_at": time.Now().Add(-time.Minute).UTC().Format(time.RFC3339),
	})
	buyers := map[string]*visitor{}
	for language, texts := range textsOfRoom {
		v := visit(p.url, language)
		buyers[language] = v
		v.goTo("/")
		v.joinByKeyboard(sale)
		v.reads(buyOf(sale), texts.lobby)
		v.until(`document.title.startsWith(%q)`, texts.badgeLobby)
		v.reads("#live", texts.lobby)
		v.run(`document.activeElement.blur()`)
	}
	p.change(t, sale, map[string]any{"begin_at": time.Now().Add(-time.Second).UTC().Format(time.RFC3339)})

	first, second, deadline := "en", "zh", time.Now().Add(pageTimeout)
	for !evaluate[bool](buyers[first].tab, canBuy(sale)) {
		require.True(t, time.Now().Before(deadline), "no buyer is admitted")
		first, second = second, first
	}
	v, texts := buyers[first], textsOfRoom[first]
	v.until(hasFocus(buyOf(sale)))
	v.reads(card(sale)+" .note", texts.turn)
	v.until(`document.title.startsWith(%q)`, texts.badgeTurn)
	v.reads("#live", texts.turn)

	waits, waiting := buyers[second], textsOfRoom[second]
	waits.reads(buyOf(sale), waiting.position)
	waits.until(`document.title.startsWith(%q)`, waiting.badge)
	waits.reads("#live", waiting.position)
	require.False(t, evaluate[bool](waits.tab, canBuy(sale)))

	v.key(kb.Enter)
	v.until(hasFocus(linkOf(sale)))
	v.reads(card(sale), texts.reserved)
	v.until(`!document.title.includes(%q)`, texts.badgeTurn)

	waits.reads(card(sale)+" .note", waiting.soldOut)
	waits.do(chromedp.Reload())
	waits.reads(card(sale)+" .note", waiting.soldOut) // the place survives a reload
	waits.tabTo(`[data-do="language"]`)
	p.must(t, http.MethodPost, "/admin/vouchers/"+sale+"/stock", p.token, map[string]any{"delta": 1, "reason": "came back"})
	waits.reads(card(sale)+" .note", waiting.turn)
	require.True(t, evaluate[bool](waits.tab, hasFocus(`[data-do="language"]`)), "the focus stays where the buyer needs it")

	waits.tabTo(leaveOf(sale))
	waits.key(kb.Enter)
	waits.until(`document.querySelector("dialog[open]")?.contains(document.activeElement)`)
	waits.key(kb.Tab)
	waits.key(kb.Enter)
	waits.reads(buyOf(sale), waiting.join)
	waits.until(hasFocus(buyOf(sale)))
	require.Zero(t, evaluate[int](waits.tab, `Object.keys(localStorage).filter((name) => name.startsWith("seckill.place.")).length`))
}

// roomInTwoTabs checks that tabs share a place and one stream, and that another tab goes on when the one with the stream
// closes.
func roomInTwoTabs(t *testing.T, p *shop, visit func(string) *visitor) {
	sale := p.room(t, offer{Stock: 5, BeginAt: time.Now().Add(5 * time.Minute)}, nil)
	v := visit(p.url)
	v.loginNewUser()
	one, two := v.tab, v.newTab()
	two.before(interceptFetch)
	two.goTo("/")
	one.click(buyOf(sale))
	const inLobby = "You are in the waiting room"
	one.reads(buyOf(sale), inLobby)
	two.reads(buyOf(sale), inLobby)
	streams := func(b *tab) int { return evaluate[int](b, `count("/entry/events")`) }
	eventually(t, "one tab streams", func() bool { return streams(one)+streams(two) > 0 })
	three := v.newTab()
	three.goTo("/")
	three.reads(buyOf(sale), inLobby) // from the tab with the stream
	require.Equal(t, 1, streams(one)+streams(two))

	if streams(two) == 1 {
		one, two = two, one
	}
	one.do(chromedp.Navigate("about:blank"))
	p.must(t, http.MethodPost, "/admin/vouchers/"+sale+"/room", p.token, map[string]any{"message": "Ten more minutes, please."})
	for _, b := range []*tab{two, three} {
		b.reads(card(sale), "Ten more minutes, please.")
		b.reads("#live", "Ten more minutes, please.")
	}
}

// roomRefusals covers what may end or interrupt a place: a lost connection, a lost place, a refused pass.
func roomRefusals(t *testing.T, p *shop, visit func(string) *visitor) {
	later := p.room(t, offer{Stock: 5, BeginAt: time.Now().Add(5 * time.Minute)}, map[string]any{
		"opens_at": time.Now().Add(2 * time.Minute).UTC().Format(time.RFC3339),
	})
	sale := p.room(t, offer{Stock: 5}, nil)
	v := visit(p.url)
	v.loginNewUser()
	v.reads(card(later)+" .note", "The waiting room opens in 00:0")
	require.False(t, evaluate[bool](v.tab, canBuy(later)))

	v.run(`window.answer = (a, o, real) => a.includes("/entry/events") && (window.entries ? window.entries(o, real) : never(o));
		window.stream = (...events) => Promise.resolve(new Response(events.map(([event, data]) => "event: " + event + "\ndata: " + JSON.stringify(data) + "\n\n").join(""), { status: 200 }))`)
	v.click(buyOf(sale))
	v.until(`count("/entry/events") === 1`)
	v.run(`window.entries = () => Promise.reject(new TypeError("gone")); dispatchEvent(new Event("offline"))`)
	v.run(`const r = await load("shop/rooms.js"); window.rooms = r`)
	v.do(chromedp.Reload())
	v.until(canBuy(sale))
}
