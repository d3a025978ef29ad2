// The load simulation (rush): a demo sale and simulated buyers, run by the server.

import { announce } from "../lib/announce.js";
import { deleteMine, getMine } from "../lib/api.js";
import { attr, h, show, text } from "../lib/dom.js";
import { has, number, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { form } from "./form.js";
import { panel } from "./panel.js";
import { button, chip, errorBox, factList, head, poll, section, setChip } from "./parts.js";
import { verdicts } from "./verdicts.js";

const EVERY = 700; // ms
const NO_DEMO = "Only in demo mode"; // title of the Problem; its code, "forbidden", has other causes as well
const BUYERS = 5_000;
const STOCK = 10_000;
const LONGEST = 60; // seconds

const oneDecimal = (n) => (n == null ? "" : number(Math.round(n * 10) / 10));

// mount shows the form, the last rush and the panel of its sale.
export function mount(root) {
  const post = intents();
  const out = errorBox();
  const state = chip("");
  const progress = h("progress", { "aria-label": t("rush.progress") });
  const list = factList();
  const why = h("p", { class: "note", "data-why": true });
  const detail = h("p", { class: "reference", lang: "en" });
  const results = verdicts();
  const link = h("a", { class: "link" }, t("rush.sale"));
  const stop = button({ name: "stop", out }, async () => {
    await deleteMine("/admin/rush");
  });
  const last = section(t("rush.last"), h("div", { class: "head" }, h("p", { class: "sub" }, link), state), progress, list.element, why, detail, results.element,
    h("div", { class: "actions" }, stop));
  const panelPlace = h("div", {});
  const start = form({
    name: "rush", label: t("rush.start"),
    fields: [
      { name: "buyers", kind: "whole", label: t("rush.buyers"), required: true, min: 1, max: BUYERS, value: 1000 },
      { name: "stock", kind: "whole", label: t("voucher.stock"), required: true, min: 1, max: STOCK, value: 100 },
      { name: "for", kind: "whole", label: t("rush.for"), note: t("rush.forNote"), required: true, min: 0, max: LONGEST, value: 20 },
    ],
    work: async (values) => render(await post("/admin/rush", values)),
  });
  let live = null;
  let shown = "";
  let was = "";

  function render(r) {
    if (!last.isConnected) return;
    show(last, r.state !== "idle");
    attr(last, "data-rush", r.state);
    setChip(state, t(`rush.is.${r.state}`), { running: "on_sale", done: "good", failed: "bad" }[r.state]);
    attr(link, "href", r.voucher_id && `/console/sales/${r.voucher_id}`);
    show(link, r.voucher_id);
    attr(progress, "max", r.buyers || 1);
    attr(progress, "value", r.answered ?? 0);
    list.set([
      { id: "answered", name: t("rush.answered"), value: t("sales.soldOf", { n: number(r.answered ?? 0), all: number(r.buyers ?? 0) }) },
      { id: "orders", name: t("orders.title"), value: t("sales.soldOf", { n: number(r.orders ?? 0), all: number(r.stock ?? 0) }) },
      { id: "took", name: t("rush.took"), value: r.took_ms ? oneDecimal(r.took_ms / 1000) : "" },
      { id: "p50", name: t("live.p50"), value: oneDecimal(r.p50_ms) }, { id: "p99", name: t("live.p99"), value: oneDecimal(r.p99_ms) },
      ...Object.entries(r.outcomes ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([code, n]) => ({ id: code, name: has(`series.${code}`) ? t(`series.${code}`) : code, value: number(n) })),
    ]);
    const known = has(`rush.why.${r.reason}`);
    text(why, r.state === "failed" ? t(`rush.why.${known ? r.reason : "other"}`) : "");
    text(detail, known ? "" : r.detail ?? "");
    results.set(r.verdicts ?? []);
    show(stop, r.state === "running");
    if (r.voucher_id && r.voucher_id !== "0") showSale(r.voucher_id);
    if (was && was !== r.state) announce(t(`rush.is.${r.state}`));
    was = r.state;
  }

  function showSale(id) {
    if (id === shown) return;
    shown = id;
    live?.end();
    live = panel(id);
    panelPlace.replaceChildren(live.element);
  }

  async function read() {
    try {
      render(await getMine("/admin/rush"));
    } catch (problem) {
      if (problem.code !== "forbidden") throw problem;
      if (last.isConnected) showForbidden(problem);
    }
  }

  // showForbidden replaces the page: the server is not a demo, or the user is no longer an admin.
  function showForbidden(problem) {
    const why = problem.title === NO_DEMO ? h("p", { class: "empty", "data-nodemo": true }, t("rush.noDemo")) : h("p", { class: "empty", "data-gate": true }, t("access.role"));
    live?.end();
    root.replaceChildren(head(t("rush.title")), why);
  }

  show(last, false);
  root.replaceChildren(head(t("rush.title"), h("p", {}, t("rush.lead"))), section(t("rush.new"), start.element), out.element, last, panelPlace);
  poll(last, out, EVERY, read);
  return () => live?.end();
}
