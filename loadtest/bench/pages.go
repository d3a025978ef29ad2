package main

import (
	"context"
	"fmt"

	"seckill/loadtest/bench/report"
	"seckill/loadtest/bench/visitor"
)

// pageSales is the number of sales in the scenario pages, besides those of the demo.
const pageSales = 60

// pages measures the storefront in Chromium, on a server with default settings: the seconds until a new visitor with a
// slow network sees a sale, and what a visitor costs who only looks at the page.
func (b *bench) pages(ctx context.Context, sec *report.Section) error {
	st, err := b.stack(ctx)
	if err != nil {
		return err
	}

	server, _, err := st.serveEmbedded(ctx, "pages")
	if err != nil {
		return err
	}

	if _, err := st.sales(ctx, server, pageSales, 100); err != nil {
		return err
	}

	browser, stop, err := visitor.Start(ctx)
	if err != nil {
		return err
	}
	defer stop()

	url := "http://" + server.addr + "/"
	var seconds, kilobytes, percent []float64
	for round := range b.opts.rounds {
		shown, err := visitor.FirstSale(browser, url)
		if err != nil {
			return fmt.Errorf("first sale: %w", err)
		}

		received, cpu, err := visitor.Idle(browser, url, b.opts.sizes.watch)
		if err != nil {
			return fmt.Errorf("idle visitor: %w", err)
		}

		seconds = append(seconds, shown.Seconds())
		kilobytes = append(kilobytes, float64(received)/1000/b.opts.sizes.watch.Minutes())
		percent = append(percent, 100*cpu.Seconds()/b.opts.sizes.watch.Seconds())
		b.progress("  %d/%d  first sale after %.1f s; idle: %.1f KB/min, %.2f %% of a core", round+1, b.opts.rounds,
			seconds[round], kilobytes[round], percent[round])
	}

	sec.Note("Chromium without a graphics processor, a new profile per visit, %d sales. The idle visitor was observed for %s per round.",
		pageSales, b.opts.sizes.watch)

	b.report.Add(report.Bar{
		What:   "storefront: seconds until the first sale is shown, at 400 kbit/s and 400 ms",
		Values: seconds,
		Most:   3,
	})

	b.report.Add(report.Bar{
		What:   "idle visitor of the storefront: kilobytes received per minute",
		Values: kilobytes,
		Most:   5,
	})

	b.report.Add(report.Bar{
		What:   "idle visitor of the storefront: CPU time of its process, % of a core",
		Values: percent,
		Most:   1,
	})

	return nil
}
