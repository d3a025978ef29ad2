// The list of sales, and the form of a new one.

import { getMine } from "../lib/api.js";
import { h, newID } from "../lib/dom.js";
import { go } from "../lib/frame.js";
import { money, number, stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import * as alerts from "./alerts.js";
import { form } from "./form.js";
import { chip, confirmAnother, errorBox, head, listing, section } from "./parts.js";
import { all as allShops } from "./shops.js";
import { body, copyOf, fields, validate } from "./voucher.js";

const states = ["on_sale", "upcoming", "sold_out", "ended"];
const unpublished = ["draft", "off"];

// stateOf returns the text and kind of a voucher's chip: its status if it is not published, else its state.
export const stateOf = (v) => (v.status === "on" ? [t(`state.${v.state}`), v.state] : [t(`voucher.${v.status}`), "ended"]);

// list shows the sales of one state, or all.
export function list(root) {
  const chosen = new URLSearchParams(location.search).get("state") ?? "";
  const id = newID("state");
  const choice = h("select", { id, name: "state", onchange: () => go(choice.value ? `/console?state=${choice.value}` : "/console") },
    h("option", { value: "" }, t("sales.all")), states.map((s) => h("option", { value: s }, t(`state.${s}`))),
    unpublished.map((s) => h("option", { value: s }, t(`voucher.${s}`))));
  choice.value = [...states, ...unpublished].includes(chosen) ? chosen : "";
  const all = listing({
    caption: t("sales.title"), empty: t("sales.none"),
    columns: [
      { label: t("voucher.title"), cell: (v) => h("a", { href: `/console/sales/${v.id}` }, v.title) },
      { label: t("voucher.state"), cell: (v) => h("span", {}, chip(...stateOf(v)), alerts.violated(v.id) ? [" ", chip(t("alerts.badge"), "bad")] : null) },
      { label: t("voucher.stock"), number: true, cell: (v) => (v.stock === undefined ? "–" : `${number(v.stock)} / ${number(v.initial_stock + (v.added_stock ?? 0))}`) },
      { label: t("voucher.begin_at"), cell: (v) => (v.begin_at ? stamp(v.begin_at) : "–") },
      { label: t("voucher.end_at"), cell: (v) => (v.end_at ? stamp(v.end_at) : "–") },
      { label: t("voucher.pay_value"), number: true, cell: (v) => money(v.pay_value, v.currency) },
      { label: t("voucher.id"), number: true, cell: (v) => v.id },
    ],
    read: (cursor) => getMine(`/vouchers?${new URLSearchParams({ limit: 30, ...(choice.value && { status: choice.value }), ...(cursor && { cursor }) })}`),
  });
  root.replaceChildren(head(t("sales.title"), h("p", {}, t("sales.lead"))),
    h("div", { class: "bar" },
      h("div", { class: "field" }, h("label", { for: id }, t("voucher.state")), choice),
      session.may("operate") ? h("a", { href: "/console/new", class: "button primary" }, t("sales.new")) : null),
    all.element);
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
  root.replaceChildren(head(t("sales.new"), h("p", {}, t("sales.newLead")), h("a", { href: "/console", class: "link" }, t("sales.back"))), out.element, place);
  let unmounted = false;
  Promise.all([allShops(), from && getMine(`/vouchers/${from}`)]).then(([shops, copied]) => {
    if (unmounted) return;
    const values = copied ? copyOf(copied) : {};
    const f = form({
      name: "make", label: t("sales.save"), check: validate(null),
      fields: fields(null, shops, () => f.value("currency")).map((field) => ({ ...field, value: values[field.name] ?? field.value })),
      work: async (values) => {
        const voucher = { ...body(values, f), status: "draft" };
        if (!(await confirmAnother(post, "/admin/vouchers", voucher, (open) => open.title))) return;
        const created = await post("/admin/vouchers", voucher);
        f.clear();
        go(`/console/sales/${created.id}`);
      },
    });
    place.replaceChildren(section(t("sales.details"), f.element));
  }, (problem) => {
    if (!problem.code) throw problem;
    place.replaceChildren();
    out.show(problem);
  });
  return () => {
    unmounted = true;
  };
}
