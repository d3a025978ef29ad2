// The live panel of a sale: its money, its last hour, the invariants and, folded, what engineers look at.

import { getMine, orNull } from "../lib/api.js";
import { attr, h, show, text } from "../lib/dom.js";
import { clockTime, money, number, stamp, t } from "../lib/i18n.js";
import { columns, course, hourPlots, inLane, plots, soldPlot } from "./figures.js";
import { watch } from "./live.js";
import { errorBox, factList, section, table } from "./parts.js";
import { plot } from "./plot.js";
import { soldBar } from "./sales.js";
import { verdicts } from "./verdicts.js";

const statuses = ["pending_payment", "paid", "redeemed", "refunding", "refunded", "cancelled"];
const ROWS = 10; // seconds in the table
const CURVE = 10_000; // ms between two reads of the curve, which the stream does not have

const round = (n) => (n == null ? "–" : number(Math.round(n * 10) / 10));

// outdated returns an invariant as it is known without recent data: one that held may be violated by now.
const outdated = (v) => (v.ok ? { ...v, ok: null, detail: "" } : v);

// takings returns the first row of a sale: revenue, sold units, and what became of the orders. show(voucher, figures) may be
// called without figures, which are null until the orders are counted.
export function takings() {
  const revenue = h("strong", { "data-fact": "revenue" });
  const bar = h("dd", {});
  const list = factList();
  const element = h("div", { class: "takings" },
    h("dl", {}, h("div", { class: "revenue" }, h("dt", {}, t("money.revenue")), h("dd", {}, revenue)), h("div", {}, h("dt", {}, t("sales.sold")), bar)), list.element);
  let shown = "";
  return {
    element,
    show(v, figures) {
      text(revenue, figures ? money(figures.revenue, v.currency) : "–");
      const key = [v.initial_stock, v.added_stock, v.stock].join();
      if (key !== shown) bar.replaceChildren(soldBar(v) ?? "");
      shown = key;
      const refunded = figures?.refunded > 0 ? `${number(figures.refunded)} (${money(figures.refunded_amount, v.currency)})` : "";
      list.set([
        ["paid", figures && number(figures.paid), refunded && "paidAndRefunded"], ["conversion", figures?.orders > 0 ? `${round(figures.conversion * 100)}%` : figures && "–"],
        ["unpaid", figures && number(figures.unpaid)], ["refunded", refunded],
      ].map(([id, value, name]) => ({ id: `money.${id}`, name: t(`money.${name || id}`), value })));
    },
  };
}

// panel shows a sale until end() is called. onStats receives each new set of statistics.
export function panel(id, onStats) {
  const stale = h("p", { class: "banner", "data-stale": true });
  const staleStatus = h("p", { class: "sr", role: "status" });
  const repair = h("p", { class: "banner", "data-repair": true });
  const out = errorBox();
  const takes = takings();
  const sold = plot(soldPlot);
  const hourly = hourPlots.map(plot);
  const figures = factList();
  const invariants = verdicts();
  const checked = h("p", { class: "note" });
  const grid = h("div", { class: "plots" });
  const lastPlace = h("div", {});
  let pictures = [];
  let last = null;
  const technical = h("details", { class: "panel fold", "data-technical": true }, h("summary", {}, h("h2", {}, t("live.technical"))),
    h("div", { class: "reports" }, figures.element, grid, h("h3", {}, t("live.table")), lastPlace));
  const element = h("div", { class: "live", "data-live": id },
    stale, staleStatus, repair, out.element,
    section(t("money.title"), takes.element),
    section(t("live.course"), sold.element, h("div", { class: "plots" }, hourly.map((p) => p.element))),
    section(t("live.invariants"), invariants.element, checked),
    technical);
  let shown = null;
  let counted = -1; // orders in the curve
  let curveAt = -CURVE;
  show(stale, false);
  show(repair, false);

  function render({ stats, seconds, hour, stale: old, receivedAt, problem }) {
    const sentence = !old ? "" : stats ? t("live.stale", { at: clockTime(receivedAt) }) : t("live.waiting");
    text(stale, sentence);
    text(staleStatus, sentence);
    show(stale, old && !problem);
    if (problem) out.show(problem);
    else out.clear();
    attr(element, "data-state", !stats ? "waiting" : old ? "stale" : "live");
    if (stats) invariants.set(old ? stats.invariants.map(outdated) : stats.invariants);
    if (!stats || stats === shown) return;
    shown = stats;
    if (!last) draw(stats.lane);
    attr(element, "data-seconds", seconds.length);
    attr(element, "data-holes", seconds.filter((s) => !s.outcomes).length);
    takes.show(stats.voucher, stats.figures);
    showRepair(stats.invariants.some((v) => v.ok === false));
    showFigures(stats);
    text(checked, stats.checked_at ? t("live.checked", { at: stamp(stats.checked_at) }) : "");
    if (!document.hidden) {
      for (const p of pictures) p.show(seconds);
      for (const p of hourly) p.show(hour);
      readCurve(stats);
    }
    last.set(seconds.slice(-ROWS).reverse());
    onStats?.(stats);
  }

  // showRepair shows what to do about a violated invariant.
  function showRepair(broken) {
    if (broken && repair.hidden) repair.replaceChildren(t("live.repair"), " ", h("a", { href: "/console/reconcile" }, t("reconcile.title")));
    show(repair, broken);
  }

  // readCurve reads the curve again when orders were counted since the last time.
  async function readCurve({ figures, voucher, at }) {
    if (!figures || figures.orders === counted || performance.now() - curveAt < CURVE) return;
    curveAt = performance.now();
    counted = figures.orders;
    const stats = await orNull(getMine(`/admin/vouchers/${id}/stats?hour=false`));
    if (!stats) {
      counted = -1; // the stream shows what is wrong
      return;
    }
    const points = course(stats.figures?.curve ?? [], voucher, at);
    show(sold.element, points.length > 1); // none before its start
    sold.show(points);
  }

  // draw adds the plots and the table of a lane.
  function draw(lane) {
    pictures = inLane(lane, plots).map((p) => plot({ ...p, series: inLane(lane, p.series) }));
    grid.replaceChildren(...pictures.map((p) => p.element));
    last = table(t("live.table"), [
      { label: t("audit.at"), cell: (s) => clockTime(Date.parse(s.at)) },
      ...inLane(lane, columns).map(({ name, value }) => ({ label: t(`series.${name}`), number: true, cell: (s) => round(value(s)) })),
    ]);
    lastPlace.replaceChildren(last.element);
  }

  function showFigures({ stock, orders, queue, totals, lane, instances }) {
    const entries = [
      ["database", stock.database], ["gate", stock.gate], ["initial", stock.initial], ["added", stock.added],
      ...(queue ? [["lag", queue.lag], ["oldest", queue.oldest_seconds], ["deadLetters", queue.dead_letters]] : []),
      ["p50", totals.p50_ms], ["p99", totals.p99_ms], ["instances", instances],
    ].map(([id, n]) => ({ id, name: t(`live.${id}`), value: n == null ? "" : round(n) }));
    const byStatus = statuses.filter((s) => s in orders).map((s) => ({ id: s, name: t(`status.${s}`), value: number(orders[s]) }));
    figures.set([...byStatus, ...entries, { id: "lane", name: t("live.lane"), value: lane }]);
  }

  const stop = watch(id, render);
  return {
    element,
    end() {
      stop();
      for (const p of [sold, ...hourly, ...pictures]) p.end();
    },
  };
}
