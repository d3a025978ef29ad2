// The orders of all buyers: search, and actions on one order.

import { getMine, postMine } from "../lib/api.js";
import * as clock from "../lib/clock.js";
import { confirm } from "../lib/confirm.js";
import { h, text } from "../lib/dom.js";
import { explain } from "../lib/explain.js";
import { go } from "../lib/frame.js";
import { has, money, number, stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import * as audit from "./audit.js";
import { download } from "./files.js";
import { form } from "./form.js";
import { named, saleLink } from "./names.js";
import { button, changing, chip, errorBox, facts, finder, head, listing, reading, section, statusLine, table } from "./parts.js";

const statuses = ["pending_payment", "paid", "redeemed", "refunding", "refunded", "cancelled", "queued", "failed"];

const kindOf = (status) => ({ paid: "good", redeemed: "good", pending_payment: "on_sale", queued: "on_sale", failed: "bad" })[status];
export const statusChip = (o) => h("span", {}, chip(t(`status.${o.status}`), kindOf(o.status)), o.disputed ? [" ", chip(t("payment.disputed"), "bad")] : null);

// pathOf returns the page of an order. An order that is not in the database is found only together with its user.
export const pathOf = (o) => `/console/orders/${o.id}${["queued", "failed"].includes(o.status) ? `?user_id=${o.user_id}` : ""}`;

const names = ["phone_end", "id", "title", "from", "to", "payment_ref", "status", "voucher_id", "user_id"];

// dayStart returns the beginning of a day of the browser's zone, plus a number of days.
function dayStart(day, plus = 0) {
  const [year, month, date] = day.split("-").map(Number);
  return new Date(year, month - 1, date + plus).toISOString();
}

// queryOf returns the parameters of the API for the filters of the page.
function queryOf({ from, to, ...filter }) {
  return { ...filter, ...(from && { created_from: dayStart(from) }), ...(to && { created_to: dayStart(to, 1) }) };
}

// list shows the order search. Filters live in the URL, except a whole phone number: URLs end up in proxy logs and browser
// history.
export function list(root) {
  const query = new URLSearchParams(location.search);
  const phone = (session.may("phones") && history.state?.phone) || "";
  const filter = Object.fromEntries(names.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
  const search = form({
    name: "search", label: t("orders.search"),
    fields: [
      { name: "phone", kind: "pasted", max: 128, value: phone || query.get("phone_end") },
      { name: "id", kind: "id" }, { name: "title", kind: "text", max: 255 }, { name: "from", kind: "day" }, { name: "to", kind: "day" },
      { name: "payment_ref", kind: "pasted", max: 255 },
      { name: "status", kind: "choice", options: [["", t("orders.any")], ...statuses.map((s) => [s, t(`status.${s}`)])] },
      { name: "voucher_id", kind: "id" }, { name: "user_id", kind: "id" },
    ].map((f) => ({ label: t(`orders.find.${f.name}`), value: query.get(f.name) ?? "", ...f })),
    check: ({ phone, from, to }) => ({
      ...(phone && !/^\d{4}$/.test(phone) && !session.may("phones") && { phone: t("orders.fourDigits") }),
      ...(from && to && to < from && { to: t("orders.days") }),
    }),
    work: ({ phone = "", ...values }) => {
      const end = /^\d{4}$/.test(phone) ? { phone_end: phone } : {};
      go(`/console/orders?${new URLSearchParams({ ...end, ...values })}`, phone && !end.phone_end ? { phone } : null);
    },
  });
  const fields = { phone_end: "phone", created_from: "from", created_to: "to" }; // by the parameter of the API
  const found = listing({
    caption: t("orders.title"), empty: t("orders.none"),
    columns: [
      { label: t("orders.id"), cell: (o) => h("a", { href: pathOf(o), "data-order": o.id }, o.id) },
      { label: t("orders.status"), cell: statusChip },
      { label: t("orders.created_at"), cell: (o) => stamp(o.created_at) },
      { label: t("sale.title"), cell: (o) => saleLink(o.voucher_id, o.title) },
      { label: t("voucher.shop_id"), cell: (o) => o.shop_name || "–" },
      { label: t("orders.user_id"), cell: (o) => named(o.phone || "–", o.user_id) },
      { label: t("orders.amount"), number: true, cell: amount },
    ],
    read: (cursor) => {
      const query = new URLSearchParams({ limit: 50, ...queryOf(filter), ...(cursor && { cursor }) });
      return phone ? postMine(`/admin/orders/search?${query}`, { body: { phone } }) : getMine(`/admin/orders?${query}`);
    },
    refused: (problem) => {
      if (problem.errors.length > 0) find.open = true;
      const wrong = (field) => (has(`orders.wrong.${field}`) ? t(`orders.wrong.${field}`) : t("form.refused"));
      return search.showErrors(Object.fromEntries(problem.errors.map((e) => [fields[e.field] ?? e.field, wrong(e.field)])));
    },
  });
  const find = finder(t("orders.find"), search.element);
  const out = errorBox();
  const file = (name) => download({ path: `/admin/${name}.csv`, query: filter.voucher_id ? { voucher_id: filter.voucher_id } : {}, file: name, out });
  root.replaceChildren(...[
    head(t("orders.title")), find, found.element,
    h("div", { class: "bar" }, h("div", { class: "actions" }, file("orders"), file("payments"))), out.element,
  ]);
  found.load();
}

export const amount = (o) => (o.currency ? money(o.amount, o.currency) : "–"); // a queued order has no price yet

const UNDO_TIME = 3600_000; // ms after a redemption; domain.UndoTime

export const canUndo = (o) => o.status === "redeemed" && clock.now() - Date.parse(o.redeemed_at) < UNDO_TIME;

// undo returns a folded form that takes a redemption back: send(reason) is the request.
export function undo(send) {
  const f = form({
    name: "undo-redeem", kind: "quiet", label: t("redeem.undo"),
    fields: [{ name: "reason", kind: "text", label: t("redeem.undoReason"), required: true, max: 255 }],
    work: ({ reason }) => send(reason),
  });
  return h("details", { "data-undo": true }, h("summary", {}, t("redeem.undo")), f.element);
}

// one shows an order.
export function one(root, id) {
  const post = intents();
  const out = errorBox();
  const status = statusLine();
  const about = h("div", {}, h("p", { class: "empty" }, t("loading")));
  const user = new URLSearchParams(location.search).get("user_id");
  const log = audit.entries({ order_id: id });
  const refresh = button({ name: "refresh", out }, load);

  async function load() {
    const [o] = await Promise.all([getMine(`/admin/orders/${id}${user ? `?user_id=${user}` : ""}`), log.load()]);
    if (about.isConnected) render(o); // its forms would take over the edits of those on the next page
  }

  const change = changing(status, load);
  const undoHere = (reason) => change(post(`/admin/orders/${id}/undo-redeem`, { reason }), t("redeem.undone", { id }));
  const redeemNote = h("p", { class: "note" }, t("redeem.note"));
  const move = (o) => (name) => button({ name, out, kind: name === "redeem" ? "primary" : "quiet", label: t(`move.${name}`) }, async () => {
    if (!(await confirm(t(`move.sure.${name}`, { id, phone: o.phone || o.user_id }), t(`move.yes.${name}`)))) return;
    await change(post(`/admin/orders/${id}/${name}`), t(`move.done.${name}`));
  });

  // choices returns what can be done with an order, or says that nothing can.
  function choices(o) {
    if (o.moves.length > 0) return h("div", { class: "actions" }, o.moves.map(move(o)));
    if (canUndo(o) && session.may("operate")) return undo(undoHere);
    return h("p", { class: "note" }, t(o.status === "redeemed" ? "move.noneRedeemed" : "move.none"));
  }

  // phoneOf returns the masked number, with a button that replaces it by the complete one.
  function phoneOf(o) {
    const shown = h("span", { "data-phone": true }, o.phone);
    if (!o.phone || !session.may("phones")) return shown;
    const reveal = button({ name: "reveal", kind: "link", label: t("orders.reveal"), out }, async () => {
      const { phone } = await getMine(`/admin/orders/${id}/phone${user ? `?user_id=${user}` : ""}`);
      text(shown, phone);
      reveal.remove();
      status.show(t("orders.revealed"));
    });
    return h("span", {}, shown, " ", reveal);
  }

  // outside returns a form that records money returned without the provider, or null if no payment is being refunded.
  function outside(o) {
    const open = o.payments.filter((p) => p.status === "refunding");
    if (open.length === 0 || !session.may("operate")) return null;
    const f = form({
      name: "return-outside", kind: "quiet", label: t("payments.outside.do"),
      fields: [
        { name: "provider_ref", kind: "choice", label: t("payments.outside.ref"), options: open.map((p) => [p.provider_ref, `${p.provider_ref} · ${amount(p)}`]), value: open[0].provider_ref },
        { name: "reason", kind: "text", label: t("payments.outside.reason"), required: true, max: 255 },
      ],
      work: async (values) => {
        const paid = open.find((p) => p.provider_ref === values.provider_ref);
        if (!(await confirm(t("payments.outside.sure", { amount: amount(paid) }), t("payments.outside.do")))) return;
        await change(post(`/admin/orders/${id}/return-outside`, values), t("payments.outside.done"));
      },
    });
    return section(t("payments.outside"), h("p", { class: "note" }, t("payments.outside.lead")), f.element);
  }

  function render(o) {
    const payments = table(t("payments.title"), [
      { label: t("payments.ref"), cell: (p) => `${p.provider} ${p.provider_ref}` },
      { label: t("orders.status"), cell: (p) => h("span", {}, chip(has(`payment.${p.status}`) ? t(`payment.${p.status}`) : p.status, ["failed", "disputed"].includes(p.status) ? "bad" : undefined),
        p.refund_error && p.status === "refunding" ? ` ${t("payments.tries", { n: number(p.refund_tries), error: p.refund_error })}` : null) },
      { label: t("orders.amount"), number: true, cell: amount },
      { label: t("payments.created_at"), cell: (p) => stamp(p.created_at) },
      { label: t("payments.updated_at"), cell: (p) => stamp(p.updated_at) },
    ], { cards: true });
    payments.set(o.payments);
    about.replaceChildren(
      h("div", { class: "panel", "data-order": o.id, "data-status": o.status },
        h("div", { class: "head" }, h("strong", {}, saleLink(o.voucher_id, o.title)), statusChip(o)),
        facts([
          [t("orders.amount"), amount(o)], [t("orders.user_id"), h("span", {}, phoneOf(o), " ", h("small", {}, h("a", { href: `/console/orders?user_id=${o.user_id}` }, o.user_id)))],
          [t("voucher.sub_title"), o.sub_title], [t("voucher.shop_id"), o.shop_name], [t("voucher.rules"), o.rules],
          ...["created_at", "expires_at", "paid_at", "redeemed_at", "cancelled_at", "refunded_at"].map((at) => [t(`orders.${at}`), o[at] && stamp(o[at])]),
          [t("orders.ahead"), o.ahead == null ? "" : number(o.ahead)], [t("orders.reason"), o.reason && explain({ code: o.reason, status: 500 })],
        ]),
        choices(o),
        o.moves.includes("redeem") ? redeemNote : null),
      section(t("payments.title"), o.payments.length > 0 ? payments.element : h("p", { class: "note" }, t("payments.none"))),
      outside(o) ?? "");
  }

  root.replaceChildren(head(t("orders.number", { id }), h("a", { href: "/console/orders", class: "link" }, t("orders.back"))),
    h("div", { class: "bar" }, refresh), status.element, out.element, about, section(t("audit.title"), log.element));
  reading(out, async () => {
    await load();
    return true;
  }).then((read) => read || about.replaceChildren());
}
