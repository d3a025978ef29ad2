package browser

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// hold makes the body of an event stream wait until the server ends it, as virus scanners and some networks do.
func hold(res *http.Response) { res.Body = &heldBody{ReadCloser: res.Body} }

// holdRest lets only the beginning pass, like a proxy with a buffer that it sends when it is full.
func holdRest(res *http.Response) {
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(res.Body, int64(len(":\n\n"))), &heldBody{ReadCloser: res.Body}), res.Body}
}

// refuse answers like a proxy that allows no event streams.
func refuse(res *http.Response) {
	_ = res.Body.Close()
	const page = "<h1>Forbidden</h1>"
	res.StatusCode = http.StatusForbidden
	res.Header = http.Header{"Content-Type": {"text/html"}}
	res.Body = io.NopCloser(strings.NewReader(page))
}

// heldBody returns nothing until the end of its body.
type heldBody struct {
	io.ReadCloser
	all *bytes.Reader
}

func (b *heldBody) Read(p []byte) (int, error) {
	if b.all == nil {
		text, err := io.ReadAll(b.ReadCloser)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		b.all = bytes.NewReader(text)
	}
	return b.all.Read(p)
}

// TestHeldStreams: behind a proxy that holds event streams back, or refuses them, the pages poll.
// Source: windmill-labs/windmill#10716, concourse/concourse#1859, SignalR/SignalR#3638.
func TestHeldStreams(t *testing.T) {
	env.Full(t)
	t.Parallel()
	browser := startBrowser(t)
	p := rig.EmbeddedStack(t).WithAdmins().Serve(t).Shop(t)
	held := startFront(t, p.URL)
	held.Stream = hold

	t.Run("turn in a waiting room", func(t *testing.T) {
		t.Parallel()
		begin := time.Now().Add(4 * time.Second)
		sale := p.Room(t, rig.Offer{Stock: 5, BeginAt: begin}, map[string]any{"rate": 1, "pass_ttl": 60})
		v := visit(t, browser, held.URL, "en")
		v.goTo("/sales/" + sale)
		v.joinByKeyboard(sale)
		v.until(canBuy(sale))
		v.reads(card(sale), "It's your turn!")
		v.click(buyOf(sale))
		v.until(`document.querySelector(%q)?.checkVisibility()`, linkOf(sale))
	})

	// An order is paid while its page is open.
	for name, change := range map[string]func(*http.Response){"held": hold, "refused": refuse, "only the beginning": holdRest} {
		t.Run("paid elsewhere, streams "+name, func(t *testing.T) {
			t.Parallel()
			f := startFront(t, p.URL)
			f.Stream = change
			sale, phone := p.Publish(t, rig.Offer{Stock: 5}), rig.NewPhone()
			token := p.LoginToken(t, phone)
			o := p.Buy(t, token, sale)
			v := visit(t, browser, f.URL, "en")
			v.goTo("/orders/" + o.ID)
			v.click("main .center button.primary")
			v.login(phone)
			v.orderIs("pending_payment")
			p.Must(t, rig.Pay(o.ID, token))
			v.orderIs("paid")
			v.until(`document.querySelector(%q).checkVisibility()`, anOrder+" code")
			require.Positive(t, f.Changed.Load())
		})
	}

	t.Run("live view", func(t *testing.T) {
		t.Parallel()
		sale := p.Publish(t, rig.Offer{Title: "Held back", Stock: 5})
		v := visit(t, browser, held.URL, "en")
		v.enter("/console/sales/"+sale, rig.AdminPhones[0])
		v.until(`document.querySelector("[data-live]")?.dataset.state === "live"`)
		p.Buy(t, p.LoginToken(t, rig.NewPhone()), sale)
		v.until(`document.querySelector('%s')?.textContent === "4"`, fact("database"))
		require.Equal(t, "0", evaluate[string](v.tab, `document.querySelector("[data-live]").dataset.holes`))
	})
	t.Cleanup(func() { require.Positive(t, held.Changed.Load(), "no stream was held back") })
}
