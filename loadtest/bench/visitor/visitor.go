// Package visitor measures the storefront as a visitor's browser sees it, in Chromium.
package visitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"seckill/test/env/servers"
)

// The slow network. Its delay is that of each response, after the request was sent; Chromium delays no connection.
const (
	slowDelay = 400 * time.Millisecond
	slowBytes = 400_000 / 8 // per second
)

const (
	settleTime   = 5 * time.Second // from the first sale until the page is idle
	visitTimeout = 3 * time.Minute // more than an idle page is observed
)

// Start starts a Chromium without a window. The context that it returns is the browser, for the other functions of this
// package; the function ends it.
func Start(ctx context.Context) (context.Context, func(), error) {
	path, err := servers.FindChromium()
	if err != nil {
		return nil, nil, err
	}

	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		// Required for root in containers; it loads only pages of this server.
		chromedp.NoSandbox,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-component-update", true))

	allocator, stopAllocator := chromedp.NewExecAllocator(ctx, options...)
	browser, closeBrowser := chromedp.NewContext(allocator)
	stop := func() { closeBrowser(); stopAllocator() }

	if err := chromedp.Do(browser); err != nil {
		stop()
		return nil, nil, fmt.Errorf("start %s: %w", path, err)
	}

	return browser, stop, nil
}

// newTab opens a tab in a profile of its own, with an empty cache.
func newTab(browser context.Context, options ...chromedp.ContextOption) (context.Context, func(), error) {
	tab, stop := chromedp.NewContext(browser, append(options, chromedp.WithNewBrowserContext())...)
	tab, cancel := context.WithTimeout(tab, visitTimeout)
	closeTab := func() { cancel(); stop() }

	// Without focus Chromium throttles a tab.
	_, err := chromedp.Call(tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	if err == nil {
		_, err = chromedp.Call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: findFirstSale})
	}

	if err != nil {
		closeTab()
		return nil, nil, err
	}

	return tab, closeTab, nil
}

// findFirstSale is a script that sets firstSale to the milliseconds from the start of the navigation until the first
// frame with a sale.
const findFirstSale = `new MutationObserver((_, observer) => {
	if (!document.querySelector(".sale[data-voucher]")?.checkVisibility()) return;
	observer.disconnect();
	requestAnimationFrame(() => { window.firstSale = performance.now() });
}).observe(document, { childList: true, subtree: true })`

// visit loads a page and returns the time until its first sale is shown.
func visit(tab context.Context, url string) (time.Duration, error) {
	if err := chromedp.Do(tab, chromedp.Navigate(url)); err != nil {
		return 0, err
	}

	for {
		millis, err := chromedp.Run(tab, chromedp.Evaluate[float64](`window.firstSale ?? 0`))
		if err != nil || millis > 0 {
			return time.Duration(millis * float64(time.Millisecond)), err
		}

		select {
		case <-tab.Done():
			return 0, errors.New("the page shows no sale")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// FirstSale returns the time until a new visitor with a slow network sees a sale of the storefront at url.
func FirstSale(browser context.Context, url string) (time.Duration, error) {
	tab, closeTab, err := newTab(browser)
	if err != nil {
		return 0, err
	}
	defer closeTab()

	_, err = chromedp.Call(tab, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{
			Latency: float64(slowDelay.Milliseconds()), DownloadThroughput: slowBytes, UploadThroughput: slowBytes,
		}},
	})
	if err != nil {
		return 0, err
	}

	return visit(tab, url)
}

// Idle returns the bytes that an untouched page receives within a time, and the CPU time of its process.
func Idle(browser context.Context, url string, watch time.Duration) (int64, time.Duration, error) {
	var bytes atomic.Int64
	tab, closeTab, err := newTab(browser, chromedp.WithListener(func(event any) {
		if e, ok := event.(*network.EventLoadingFinished); ok {
			bytes.Add(int64(e.EncodedDataLength))
		}
	}))
	if err != nil {
		return 0, 0, err
	}
	defer closeTab()

	if _, err := visit(tab, url); err != nil {
		return 0, 0, err
	}

	pause := func(d time.Duration) {
		select {
		case <-tab.Done():
		case <-time.After(d):
		}
	}

	pause(settleTime)

	if bytes.Load() == 0 {
		return 0, 0, errors.New("the browser reported no response")
	}
	if _, err := chromedp.Call(tab, performance.Enable, performance.EnableParams{}); err != nil {
		return 0, 0, err
	}

	before, err := processTime(tab)
	if err != nil {
		return 0, 0, err
	}

	loaded := bytes.Load()
	pause(watch)
	after, err := processTime(tab)
	return bytes.Load() - loaded, after - before, err
}

// processTime returns the CPU time of the process that runs the page of a tab.
func processTime(tab context.Context) (time.Duration, error) {
	r, err := chromedp.Call(tab, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(r.Metrics, func(m *performance.Metric) bool { return m.Name == "ProcessTime" })
	if i < 0 {
		return 0, errors.New("the browser has no ProcessTime")
	}
	return time.Duration(r.Metrics[i].Value * float64(time.Second)), nil
}
