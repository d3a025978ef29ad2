// The list of sales, and the form of a new one.

import { getMine } from "../lib/api.js";
import { h, newID } from "../lib/dom.js";
import { go } from "../lib/frame.js";
import { money, number, stamp, t, zone } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import * as alerts from "./alerts.js";
import { form, localTime } from "./form.js";
import { chip, confirmAnother, head, listing, section } from "./parts.js";
import { MAX_RATE } from "./room.js";

const states = ["on_sale", "upcoming", "sold_out", "ended", "off"];

// stateOf returns the text and kind of a voucher's chip: its status if it is unpublished or expired, else its state.
export const stateOf = (v) => (v.status === "on" ? [t(`state.${v.state}`), v.state] : [t(`voucher.${v.status}`), "ended"]);

// list shows the sales of one state, or all.
export function list(root) {
  const chosen = new URLSearchParams(location.search).get("state") ?? "";
  const id = newID("state");
  const choice = h("select", { id, name: "state", onchange: () => go(choice.value ? `/console?state=${choice.value}` : "/console") },
    h("option", { value: "" }, t("sales.all")), states.map((s) => h("option", { value: s }, s === "off" ? t("voucher.off") : t(`state.${s}`))));
  choice.value = states.includes(chosen) ? chosen : "";
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

const MAX_UNITS = 1_000_000_000;

// fields returns the form fields of a voucher; `v` is the voucher to change, or null for a new one.
export function fields(v, currency) {
  const own = (name) => v?.[name] ?? "";
  const sale = !v || v.type === "seckill";
  const at = (name, hours) => localTime(v ? v[name] : Date.now() - (Date.now() % 60_000) + hours * 3_600_000);
  const note = t("voucher.zone", { zone: zone() });
  const withPass = (value) => value("entry.mode") !== "open";
  const withRoom = (value) => value("entry.mode") === "room";
  const all = [
    { name: "title", kind: "text", required: true, max: 255 },
    { name: "sub_title", kind: "text", max: 255, empty: "" },
    { name: "rules", kind: "area", max: 1024, empty: "" },
    { name: "shop_id", kind: "id", required: true },
    !v && { name: "currency", kind: "text", required: true, max: 3, value: "CNY", note: t("voucher.currencyNote") },
    { name: "pay_value", kind: "amount", required: true, currency },
    { name: "actual_value", kind: "amount", required: true, currency, note: t("voucher.faceValueNote") },
    !v && { name: "stock", kind: "whole", required: true, min: 0, max: MAX_UNITS },
    sale && { name: "limit_per_user", kind: "whole", required: true, min: 1, max: 100, value: v ? v.limit_per_user : 1 },
    sale && { name: "entry.mode", kind: "choice", value: "open", note: t("voucher.entry.modeNote"), options: ["open", "pass", "room"].map((m) => [m, t(`voucher.entry.${m}`)]) },
    sale && { name: "entry.opens_at", kind: "time", value: "", empty: "", note: t("voucher.entry.opens_atNote"), shown: withRoom },
    sale && { name: "entry.rate", kind: "whole", min: 1, max: MAX_RATE, value: "", empty: "", note: t("voucher.entry.rateNote"), shown: withRoom },
    sale && { name: "entry.pass_ttl", kind: "whole", min: 1, max: 3600, value: "", empty: "", note: t("voucher.entry.pass_ttlNote"), shown: withPass },
    sale && {
      name: "entry.challenge", kind: "choice", value: "off", note: t("voucher.entry.challengeNote"), shown: withPass,
      options: ["off", "on"].map((c) => [c, t(`voucher.entry.challenge.${c}`)]),
    },
    sale && { name: "pay_timeout", kind: "whole", required: v?.pay_timeout !== undefined, min: 1, max: 86400, note: t("voucher.pay_timeoutNote") },
    sale && { name: "unpaid_limit", kind: "whole", required: v?.unpaid_limit !== undefined, min: 0, max: 100, note: t("voucher.unpaid_limitNote") },
    sale && { name: "segments", kind: "whole", required: true, min: 1, max: 16, value: v?.segments ?? 1, note: t("voucher.segmentsNote") },
    sale && { name: "begin_at", kind: "time", required: true, note, value: at("begin_at", 1) },
    sale && { name: "end_at", kind: "time", required: true, note, value: at("end_at", 3) },
  ];
  return all.filter(Boolean).map((f) => ({ label: t(`voucher.${f.name}`), value: own(f.name), ...f }));
}

// body returns the request body for the values of a voucher's form. The entry is sent as a whole.
export function body(values, form) {
  const rest = Object.fromEntries(Object.entries(values).filter(([name]) => !name.startsWith("entry.")));
  if (Object.keys(rest).length === Object.keys(values).length) return values;
  const entry = { mode: form.value("entry.mode") };
  const take = (name, convert) => {
    const input = form.value(`entry.${name}`).trim();
    if (input !== "") entry[name] = convert(input); // an empty field selects the default
  };
  if (entry.mode === "room") {
    take("opens_at", (local) => new Date(local).toISOString());
    take("rate", Number);
  }
  if (entry.mode !== "open") {
    take("pass_ttl", Number);
    take("challenge", String);
  }
  return { ...rest, entry };
}

// validate checks a voucher's fields against each other.
export function validate(values, form) {
  const errors = {};
  const [begin, end] = ["begin_at", "end_at"].map((name) => form.value(name));
  if (begin !== undefined && new Date(end) <= new Date(begin)) errors.end_at = t("form.order");
  if (form.value("entry.mode") === "room" && new Date(form.value("entry.opens_at")) > new Date(begin)) errors["entry.opens_at"] = t("form.opens");
  if (values.currency !== undefined && !/^[A-Z]{3}$/.test(values.currency)) errors.currency = t("form.currency");
  return errors;
}

// make shows the form of a new sale.
export function make(root) {
  const post = intents({ lasting: true });
  const f = form({
    name: "make", label: t("sales.publish"), fields: fields(null, () => f.value("currency")), check: validate,
    work: async (values) => {
      const voucher = body(values, f);
      if (!(await confirmAnother(post, "/admin/vouchers", voucher, (open) => open.title))) return;
      const created = await post("/admin/vouchers", voucher);
      f.clear();
      go(`/console/sales/${created.id}`);
    },
  });
  root.replaceChildren(head(t("sales.new"), h("a", { href: "/console", class: "link" }, t("sales.back"))), section(t("sales.details"), f.element));
  return () => {};
}
