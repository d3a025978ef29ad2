// Home: the sales that run, what they have brought, and what is to be done.

import { getMine, orNull } from "../lib/api.js";
import { h, show } from "../lib/dom.js";
import { stamp, t } from "../lib/i18n.js";
import { session } from "../lib/session.js";
import * as alerts from "./alerts.js";
import { takings } from "./panel.js";
import { chip, errorBox, head, keepFocus, poll, section } from "./parts.js";
import { soldBar, stateOf, thumbnail } from "./sales.js";

const EVERY = 10_000; // ms
const LISTED = 5; // sales and drafts

const tab = (name) => getMine(`/admin/vouchers?${new URLSearchParams({ tab: name, limit: LISTED })}`);
const link = (v) => h("a", { href: `/console/sales/${v.id}` }, v.title);

// mount shows the page, and reads it again while it is visible.
export function mount(root) {
  const out = errorBox();
  const waiting = h("p", { class: "empty" }, t("loading"));
  const running = h("div", { class: "running" });
  const todo = h("ul", { class: "todo" });
  const next = h("ul", { class: "briefly" });
  const past = h("ul", { class: "briefly" });
  const upcoming = section(t("home.upcoming"), next);
  const ended = section(t("home.ended"), past);
  const page = h("div", { "data-home": true }, section(t("home.todo"), todo), running, h("div", { class: "forms" }, upcoming, ended));
  let drafts = [];
  show(page, false);

  // sale returns the panel of a running sale.
  async function sale(v) {
    const takes = takings();
    const stats = await orNull(getMine(`/admin/vouchers/${v.id}/stats?hour=false`)); // without them the sale is shown all the same
    takes.show(v, stats?.figures ?? null);
    const panel = section(v.title, takes.element);
    panel.dataset.voucher = v.id;
    panel.querySelector("h2").replaceChildren(link(v), " ", chip(...stateOf(v)));
    panel.querySelector("h2").after(h("p", { class: "sub" }, t("home.until", { at: stamp(v.end_at) })));
    return h("div", { class: "pictured" }, thumbnail(v), panel);
  }

  // brief returns a line about a sale that does not run.
  const brief = (v, words) => h("li", {}, thumbnail(v), h("div", {}, link(v), h("p", { class: "sub" }, words)), soldBar(v));

  // draft returns what a draft lacks, or null if that is not known.
  async function draft(v) {
    const list = await orNull(getMine(`/admin/vouchers/${v.id}/checklist`));
    if (!list) return null;
    const lacks = [...new Set(list.problems.map((p) => t(`home.lacks.${p.field}`)))].join(t("home.and"));
    return h("span", {}, link(v), " – ", lacks ? t("home.lacks", { lacks }) : t("home.ready"));
  }

  function showTodo() {
    const all = [...alerts.sentences(), ...drafts];
    keepFocus(todo, () => todo.replaceChildren(...(all.length > 0 ? all : [t("home.nothing")]).map((line) => h("li", {}, line))));
  }

  async function load() {
    const [now, soon, saved, over] = await Promise.all(["running", "upcoming", "drafts", "ended"].map(tab));
    const panels = await Promise.all(now.items.map(sale));
    const unfinished = await Promise.all(saved.items.map(draft));
    if (now.next_cursor) panels.push(h("a", { href: "/console/sales" }, t("home.allRunning")));
    const none = h("div", { class: "panel empty" }, t("home.none"), " ",
      session.may("operate") ? h("a", { href: "/console/new" }, t("sales.new")) : null);
    keepFocus(running, () => running.replaceChildren(...(panels.length > 0 ? panels : [none])));
    keepFocus(next, () => next.replaceChildren(...soon.items.map((v) => brief(v, t("home.starts", { at: stamp(v.begin_at) })))));
    show(upcoming, soon.items.length > 0);
    keepFocus(past, () => past.replaceChildren(...over.items.filter((v) => v.type === "seckill").map((v) => brief(v, stateOf(v)[0]))));
    show(ended, past.children.length > 0);
    drafts = unfinished.filter(Boolean);
    showTodo();
    show(waiting, false);
    show(page, true);
  }

  root.replaceChildren(head(t("home.title"), session.may("operate") ? h("a", { href: "/console/new", class: "button primary" }, t("sales.new")) : null),
    out.element, waiting, page);
  poll(page, out, EVERY, load);
  return alerts.onChange(showTodo);
}
