package browser

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

var update = flag.Bool("update", false, "take the screenshots of the documentation again")

const (
	imageDir     = "../../../docs/img"
	maxImageSize = 300 << 10
)

// runningSale is the demo's sale that runs after the first start.
const runningSale = "2"

// TestScreenshots limits the size of the screenshots in the documentation. With -update it takes them again.
func TestScreenshots(t *testing.T) {
	testenv.Full(t)
	if *update {
		t.Run("store", takeStoreScreenshot)
		t.Run("console", takeConsoleScreenshot)
	}
	for _, name := range []string{"store-phone-zh.png", "console-sale.png"} {
		text, err := os.ReadFile(filepath.Join(imageDir, name))
		require.NoError(t, err)
		require.Less(t, len(text), maxImageSize, name)
		_, err = png.DecodeConfig(bytes.NewReader(text))
		require.NoError(t, err, name)
	}
}

func takeStoreScreenshot(t *testing.T) {
	browser := startBrowser(t)
	zh := rig.EmbeddedStack(t).Serve(t).Shop(t)
	zh.Sell(t, runningSale, 37)
	phone := visit(t, browser, zh.URL, "zh-CN")
	phone.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(1.5)))
	phone.goTo("/")
	phone.until(canBuy(runningSale))
	phone.until(`[...document.images].every((i) => i.complete && i.naturalWidth > 0)`)
	phone.screenshot("store-phone-zh.png")
}

// takeConsoleScreenshot takes the page of a sale under load.
func takeConsoleScreenshot(t *testing.T) {
	s := rig.EmbeddedStack(t).WithAdmins().In("queue")
	p := s.Serve(t).Shop(t)
	sale, tokens := p.Publish(t, rig.Offer{Title: "Dinner for two", SubTitle: "Riverside Hot Pot", PayValue: 9900, ActualValue: 19800, Stock: 900}), s.Tokens(t, 1500)
	v := visit(t, startBrowser(t), p.URL, "en-GB")
	v.do(chromedp.EmulateViewport(1120, 820))
	v.enter("/console/sales/"+sale, rig.AdminPhones[0])
	v.until(`document.querySelector("[data-live]")?.dataset.state === "live"`)
	for i, token := range tokens {
		o, err := p.Place(t.Context(), token, sale)
		if i%3 == 0 { // some buyers click twice
			_, _ = p.Place(t.Context(), token, sale)
		}
		switch {
		case err != nil:
		case i%40 == 1:
			p.Must(t, rig.Pay(o.ID, token))
		case i%60 == 2:
			p.Must(t, rig.Post("/orders/"+o.ID+"/cancel", token, nil))
		}
		time.Sleep(time.Duration(10+5*(i/100%4)) * time.Millisecond) // purchases come in waves
	}
	v.judged("I3", "holds")
	v.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".live").scrollIntoView()`))
	v.screenshot("console-sale.png")
}

// screenshot writes a screenshot of the page to a file.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	picture, err := png.Decode(bytes.NewReader(shot))
	require.NoError(b.t, err)
	var small bytes.Buffer
	require.NoError(b.t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, picture))
	if small.Len() > len(shot) {
		small = *bytes.NewBuffer(shot)
	}
	require.NoError(b.t, os.MkdirAll(imageDir, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(imageDir, name), small.Bytes(), 0o644))
	b.t.Logf("%s: %d bytes", name, small.Len())
}
