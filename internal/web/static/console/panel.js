// The live panel of a sale: figures, invariants, plots and a table.

import { attr, h, show, text } from "../lib/dom.js";
import { clockTime, number, stamp, t } from "../lib/i18n.js";
import { columns, inLane, plots } from "./figures.js";
import { watch } from "./live.js";
import { errorBox, factList, section, table } from "./parts.js";
import { plot } from "./plot.js";
import { verdicts } from "./verdicts.js";

const statuses = ["pending_payment", "paid", "redeemed", "refunding", "refunded", "cancelled"];
const ROWS = 10; // seconds in the table

const round = (n) => (n == null ? "–" : number(Math.round(n * 10) / 10));

// outdated returns an invariant as it is known without recent data: one that held may be violated by now.
const outdated = (v) => (v.ok ? { ...v, ok: null, detail: "" } : v);

// panel shows a sale until end() is called. onStats receives each new set of statistics.
export function panel(id, onStats) {
  const stale = h("p", { class: "banner", "data-stale": true });
  const staleStatus = h("p", { class: "sr", role: "status" });
  const out = errorBox();
  const figures = factList();
  const invariants = verdicts();
  const checked = h("p", { class: "note" });
  const grid = h("div", { class: "plots" });
  const lastPlace = h("div", {});
  let pictures = [];
  let last = null;
  const element = h("div", { class: "live", "data-live": id },
    stale, staleStatus, out.element,
    section(t("live.now"), figures.element),
    section(t("live.invariants"), invariants.element, checked),
    section(t("live.plots"), grid),
    section(t("live.table"), lastPlace));
  let shown = null;
  show(stale, false);

  function render({ stats, seconds, stale: old, receivedAt, problem }) {
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
    showFigures(stats);
    text(checked, stats.checked_at ? t("live.checked", { at: stamp(stats.checked_at) }) : "");
    if (!document.hidden) for (const p of pictures) p.show(seconds);
    last.set(seconds.slice(-ROWS).reverse());
    onStats?.(stats);
  }

  // draw adds the plots and the table of a lane.
  function draw(lane) {
    pictures = inLane(lane, plots).map((p) => plot({ ...p, series: inLane(lane, p.series) }));
    grid.replaceChildren(...pictures.map((p) => p.element));
    last = table(t("live.table"), [
      { label: t("live.at"), cell: (s) => clockTime(Date.parse(s.at)) },
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
      for (const p of pictures) p.end();
    },
  };
}
