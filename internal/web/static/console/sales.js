// The list of sales, and the form of a new one.

import { getMine } from "../lib/api.js";
import { attr, h, newID, text } from "../lib/dom.js";
import { go, goFrom } from "../lib/frame.js";
import { money, number, stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import * as alerts from "./alerts.js";
import { form } from "./form.js";
import { named } from "./names.js";
import { chip, confirmAnother, errorBox, head, listing, pages, reading, section } from "./parts.js";
import { beside, preview } from "./preview.js";
import { all as allShops } from "./shops.js";
import { body, copyOf, fields, groups, validate } from "./voucher.js";

const tabs = ["running", "upcoming", "drafts", "ended", "all"];

// stateOf returns the text and kind of a voucher's chip: its status if it is not published, else its state. A voucher without
// a sale is never on sale.
export function stateOf(v) {
  if (v.status !== "on") return [t(`voucher.${v.status}`), "ended"];
  return v.type === "seckill" ? [t(`state.${v.state}`), v.state] : [t("voucher.plain"), "ended"];
}

// units returns the units of a sale: those held by orders, and all.
export function units(v) {
  const all = v.initial_stock + (v.added_stock ?? 0);
  return { sold: all - v.stock, all };
}

// soldBar returns the sold units of all as a bar with words; null without units.
export function soldBar(v) {
  if (v.stock === undefined) return null;
  const { sold, all } = units(v);
  if (all === 0) return null;
  const words = t("sales.soldOf", { n: number(sold), all: number(all) });
  return h("span", { class: "sold" }, h("progress", { value: sold, max: Math.max(all, 1), "aria-label": words }), h("span", {}, words));
}

// thumbnail returns the picture of a voucher, or the first letter of its title.
export const thumbnail = (v) => (v.image_url
  ? h("img", { src: v.image_url, alt: "", class: "thumb", loading: "lazy" })
  : h("span", { class: "thumb blank", "aria-hidden": "true" }, [...v.title][0]));

// list shows the sales of a tab that match the search. Both are in the URL; the page begins with the first tab that has any.
export function list(root) {
  const query = new URLSearchParams(location.search);
  const search = query.get("search") ?? "";
  let chosen = tabs.includes(query.get("tab")) ? query.get("tab") : "";
  const path = (tab) => `/console/sales?${new URLSearchParams({ tab, ...(search && { search }) })}`;
  const counts = new Map(tabs.map((tab) => [tab, h("span", { class: "count" })]));
  const links = new Map(tabs.map((tab) => [tab, h("a", { href: path(tab), "data-tab": tab }, t(`tab.${tab}`), " ", counts.get(tab))]));
  const bar = h("nav", { class: "tabs", "aria-label": t("sales.tabs") }, [...links.values()]);
  const id = newID("search");
  const input = h("input", { id, type: "search", name: "search", value: search, autocomplete: "off", maxlength: 255 });
  const find = h("form", { role: "search", "data-form": "sales", onsubmit: (event) => {
    event.preventDefault();
    const words = input.value.trim();
    go(`/console/sales?${new URLSearchParams({ tab: words ? "all" : chosen || "all", ...(words && { search: words }) })}`);
  } }, h("label", { for: id, class: "sr" }, t("sales.search")), input, h("button", { type: "submit", class: "quiet" }, t("sales.find")));
  attr(input, "placeholder", t("sales.search"));

  const all = listing({
    caption: t("sales.title"), empty: t("sales.none"),
    columns: [
      { label: t("voucher.title"), cell: (v) => h("span", { class: "titled" }, thumbnail(v), named(h("a", { href: `/console/sales/${v.id}` }, v.title), v.id)) },
      { label: t("voucher.state"), cell: (v) => h("span", {}, chip(...stateOf(v)), alerts.violated(v.id) ? [" ", chip(t("alerts.badge"), "bad")] : null) },
      { label: t("sales.sold"), cell: (v) => soldBar(v) ?? "–" },
      { label: t("voucher.pay_value"), number: true, cell: (v) => (v.status === "draft" && v.pay_value === 0 ? "–" : money(v.pay_value, v.currency)) },
      ...["begin_at", "end_at"].map((at) => ({ label: t(`voucher.${at}`), cell: (v) => (v.begin_at < v.end_at ? stamp(v[at]) : "–") })), // a draft may have no window
    ],
    read,
  });

  async function read(cursor) {
    const page = (tab) => pages("/admin/vouchers", { limit: 30, tab, ...(search && { search }) })(cursor);
    let answer = await page(chosen || tabs[0]);
    if (!chosen) {
      chosen = tabs.find((tab) => answer.counts[tab] > 0) ?? tabs[0];
      if (chosen !== tabs[0]) answer = await page(chosen);
    }
    for (const [tab, link] of links) {
      text(counts.get(tab), number(answer.counts[tab]) + (answer.complete ? "" : "+") + (tab === "all" ? plain(answer.counts) : ""));
      attr(link, "aria-current", tab === chosen ? "page" : null);
    }
    return answer;
  }

  // plain names the vouchers without a sale, which belong to no other tab.
  function plain({ all, ...others }) {
    const n = all - Object.values(others).reduce((sum, count) => sum + count, 0);
    return n > 0 ? ` ${t("tab.plain", { n: number(n) })}` : "";
  }

  root.replaceChildren(head(t("sales.title"), session.may("operate") ? h("a", { href: "/console/new", class: "button primary" }, t("sales.new")) : null),
    h("div", { class: "bar" }, bar, find), all.element);
  all.load();
  const onVisible = () => document.hidden || all.load();
  document.addEventListener("visibilitychange", onVisible);
  const unsubscribe = alerts.onChange(all.refresh);
  return () => {
    unsubscribe();
    document.removeEventListener("visibilitychange", onVisible);
  };
}

// make shows the form of a new sale, with the values of the sale in the query's `from`. It is saved as a draft.
export function make(root) {
  const post = intents({ lasting: true });
  const from = new URLSearchParams(location.search).get("from");
  const out = errorBox();
  const place = h("div", {}, h("p", { class: "empty" }, t("loading")));
  root.replaceChildren(head(t("sales.new"), h("p", {}, t("sales.newLead")), h("a", { href: "/console/sales", class: "link" }, t("sales.back"))), out.element, place);
  reading(out, () => Promise.all([allShops(), from && getMine(`/vouchers/${from}`)])).then((found) => {
    if (!found) return place.replaceChildren();
    const [shops, copied] = found;
    const values = copied ? copyOf(copied) : {};
    const f = form({
      name: "make", label: t("sales.save"), check: validate(null), groups: groups(), asks: true,
      fields: fields(null, shops, () => f.parsed("currency")).map((field) => ({ ...field, value: values[field.name] ?? field.value })),
      work: async (values) => {
        const voucher = { ...body(values, f), status: "draft" };
        if (!(await confirmAnother(post, "/admin/vouchers", voucher, (open) => open.title))) return;
        const created = await post("/admin/vouchers", voucher);
        f.clear();
        goFrom("/console/new", `/console/sales/${created.id}`);
      },
    });
    const card = preview(f, shops, { currency: () => f.parsed("currency"), stock: () => f.parsed("stock") ?? 0 });
    place.replaceChildren(beside(section(t("sales.details"), f.element), card.element));
  });
}
