// A plot that follows time, drawn by uPlot. It is redrawn in animation frames, so not while the page is hidden, and uses
// the colours of the page.

import { attr, h, show, text } from "../lib/dom.js";
import { clockTime, number, t } from "../lib/i18n.js";
import uPlot from "../vendor/uPlot.esm.js";

const HEIGHT = 190;
const MIN_SPAN = 60; // seconds; the shortest time axis

const dark = matchMedia("(prefers-color-scheme: dark)");
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const round = (n) => (n == null ? "–" : number(Math.round(n * 10) / 10));

// plot creates a plot of {name, series, counts, stacked, dots, stepped} (figures.js), with dots at each value or, if they are "sparse",
// where there are few: show(seconds) draws, end() removes it.
export function plot({ name, series, counts, stacked, dots, stepped }) {
  const canvas = h("div", { class: "canvas", role: "img", "aria-label": t(`plot.${name}`) });
  const values = series.map(() => h("b", {}));
  const element = h("figure", { class: "plot", "data-plot": name },
    h("figcaption", {}, h("h3", {}, t(`plot.${name}`)), h("ul", { class: "legend" }, series.map((s, i) =>
      h("li", {}, h("span", { class: `swatch s${i + 1}`, "aria-hidden": "true" }), ` ${t(`series.${s.name}`)} `, values[i])))),
    canvas);
  let chart = null;
  let seconds = [];
  let frame = 0;

  // legend shows the values under the pointer, or the last ones.
  function legend() {
    const at = seconds[chart?.cursor.idx ?? seconds.length - 1];
    series.forEach((s, i) => text(values[i], at ? round(s.value(at)) : "–"));
  }

  // describe sets the accessible name: the plot's figures in words.
  function describe() {
    const each = series.map((s) => [s, counts ? seconds.reduce((sum, second) => sum + s.value(second), 0) : s.value(seconds.at(-1))]);
    if (stacked) each.forEach(([, n], i) => show(values[i].parentElement, n > 0)); // most of the series are usually empty
    const figures = each.filter(([, n]) => !counts || n > 0).map(([s, n]) => `${t(`series.${s.name}`)} ${round(n)}`).join(", ");
    attr(canvas, "aria-label", t(counts ? "plot.sums" : "plot.last", { title: t(`plot.${name}`), figures: figures || "0" }));
  }

  // data returns the columns for uPlot. Stacked series are drawn from the total down, each over the previous one.
  function data() {
    const columns = series.map((s) => seconds.map(s.value));
    if (stacked) {
      for (let i = 1; i < columns.length; i++) columns[i] = columns[i].map((n, at) => (n === null ? null : n + columns[i - 1][at]));
      columns.reverse();
    }
    return [seconds.map((s) => Date.parse(s.at) / 1000), ...columns];
  }

  function options() {
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const lines = series.map((_, i) => {
      const stroke = color(`--s${i + 1}`);
      if (stacked) return { stroke, fill: stroke, width: 1, points: { show: false } };
      const first = i === 0; // overlapping lines stay distinguishable: an area below dashes
      return { stroke, width: 2, paths: stepped && uPlot.paths.stepped({ align: 1 }), spanGaps: dots === "sparse", fill: first && series.length > 1 ? `${stroke}2b` : undefined, dash: first ? undefined : [6, 4], points: { ...(dots !== "sparse" && { show: dots }), size: 4 } };
    });
    return {
      width: Math.max(200, canvas.clientWidth), height: HEIGHT, legend: { show: false },
      series: [{}, ...(stacked ? lines.reverse() : lines)],
      scales: {
        x: { range: (_, min, max) => [Math.min(min, max - MIN_SPAN), max] },
        y: { range: (_, min, max) => [0, Math.max(1, max ?? 0) * 1.08] },
      },
      axes: [
        { ...axis, space: 80, values: (_, splits) => splits.map((at) => clockTime(at * 1000)) },
        { ...axis, size: 56, values: (_, splits) => splits.map((n) => (Number.isInteger(n) ? number(n) : "")) },
      ],
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: "sale" }, points: { show: !stacked } },
      hooks: { setCursor: [legend] },
    };
  }

  function draw() {
    frame = 0;
    if (seconds.length === 0 || canvas.clientWidth === 0) return;
    if (chart) chart.setData(data());
    else chart = new uPlot(options(), data(), canvas);
    legend();
    describe();
  }

  const schedule = () => {
    if (!frame) frame = requestAnimationFrame(draw);
  };
  const redraw = () => {
    chart?.destroy();
    chart = null;
    schedule();
  };
  const size = new ResizeObserver(() => {
    if (chart && canvas.clientWidth > 0) chart.setSize({ width: canvas.clientWidth, height: HEIGHT });
    else schedule();
  });
  size.observe(canvas);
  dark.addEventListener("change", redraw);

  return {
    element,
    show(all) {
      seconds = all;
      schedule();
    },
    end() {
      cancelAnimationFrame(frame);
      size.disconnect();
      dark.removeEventListener("change", redraw);
      chart?.destroy();
    },
  };
}
