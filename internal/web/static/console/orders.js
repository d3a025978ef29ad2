// The orders of all buyers: search, actions on one order, and redeeming by the buyer's code.

import { getMine, postMine } from "../lib/api.js";
import { confirm } from "../lib/confirm.js";
import { h, text } from "../lib/dom.js";
import { explain } from "../lib/explain.js";
import { go } from "../lib/frame.js";
import { has, money, number, stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import * as audit from "./audit.js";
import { form } from "./form.js";
import { button, chip, errorBox, facts, head, listing, section, statusLine, table } from "./parts.js";

const statuses = ["pending_payment", "paid", "redeemed", "refunding", "refunded", "cancelled", "queued", "failed"];

const kindOf = (status) => ({ paid: "good", redeemed: "good", pending_payment: "on_sale", queued: "on_sale", failed: "bad" })[status];
const statusChip = (o) => chip(t(`status.${o.status}`), kindOf(o.status));

// pathOf returns the page of an order. An order that is not in the database is found only together with its user.
const pathOf = (o) => `/console/orders/${o.id}${["queued", "failed"].includes(o.status) ? `?user_id=${o.user_id}` : ""}`;

// list shows the order search. Filters live in the URL, except the phone number: URLs end up in proxy logs and browser
// history.
export function list(root) {
  const redeeming = session.may("redeem") ? section(t("redeem.title"), redeem()) : null;
  if (!session.may("read")) {
    root.replaceChildren(head(t("orders.title")), redeeming);
    return () => {};
  }
  const query = new URLSearchParams(location.search);
  query.set("phone", history.state?.phone ?? "");
  const phone = session.may("phones") ? query.get("phone") : "";
  const names = ["id", "voucher_id", "user_id", "status"];
  const search = form({
    name: "search", label: t("orders.search"),
    fields: [
      ...(session.may("phones") ? [{ name: "phone", kind: "text", max: 20, autocomplete: "off" }] : []),
      { name: "id", kind: "id" }, { name: "voucher_id", kind: "id" }, { name: "user_id", kind: "id" },
      { name: "status", kind: "choice", options: [["", t("orders.any")], ...statuses.map((s) => [s, t(`status.${s}`)])] },
    ].map((f) => ({ label: t(`orders.${f.name}`), value: query.get(f.name) ?? "", ...f })),
    work: ({ phone, ...values }) => void go(`/console/orders?${new URLSearchParams(values)}`, phone ? { phone } : null),
  });
  const filter = Object.fromEntries(names.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
  const found = listing({
    caption: t("orders.title"), empty: t("orders.none"),
    columns: [
      { label: t("orders.id"), cell: (o) => h("a", { href: pathOf(o), "data-order": o.id }, o.id) },
      { label: t("orders.status"), cell: statusChip },
      { label: t("orders.created_at"), cell: (o) => stamp(o.created_at) },
      { label: t("orders.phone"), cell: (o) => o.phone || "–" },
      { label: t("orders.amount"), number: true, cell: amount },
      { label: t("orders.voucher_id"), cell: (o) => h("a", { href: `/console/sales/${o.voucher_id}` }, o.voucher_id) },
      { label: t("orders.user_id"), cell: (o) => o.user_id },
    ],
    read: (cursor) => {
      const query = new URLSearchParams({ limit: 50, ...filter, ...(cursor && { cursor }) });
      return phone ? postMine(`/admin/orders/search?${query}`, { body: { phone } }) : getMine(`/admin/orders?${query}`);
    },
  });
  root.replaceChildren(...[head(t("orders.title")), redeeming].filter(Boolean), section(t("orders.find"), search.element), found.element);
  found.load();
  return () => {};
}

const amount = (o) => (o.currency ? money(o.amount, o.currency) : "–"); // a queued order has no price yet

// redeem returns the form for a buyer's redemption code.
function redeem() {
  const post = intents();
  const status = statusLine();
  const f = form({
    name: "redeem", label: t("redeem.do"), children: [status.element],
    fields: [{ name: "code", kind: "text", label: t("redeem.code"), required: true, max: 64 }],
    work: async (values) => {
      status.clear();
      const o = await post("/admin/redeem", values);
      f.clear();
      status.show(t("redeem.done", { id: o.id }));
    },
  });
  return f.element;
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
  let unmounted = false;

  async function load() {
    const [o] = await Promise.all([getMine(`/admin/orders/${id}${user ? `?user_id=${user}` : ""}`), log.load()]);
    if (!unmounted) render(o);
  }

  const redeemNote = h("p", { class: "note" }, t("redeem.note"));
  const move = (o) => (name) => button({ name, out, kind: name === "redeem" ? "primary" : "quiet", label: t(`move.${name}`) }, async () => {
    status.clear();
    if (!(await confirm(t(`move.sure.${name}`, { id, phone: o.phone }), t(`move.yes.${name}`)))) return;
    try {
      await post(`/admin/orders/${id}/${name}`);
      status.show(t(`move.done.${name}`));
    } finally {
      await load(); // another admin may have changed the order
    }
  });

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

  function render(o) {
    const payments = table(t("payments.title"), [
      { label: t("payments.ref"), cell: (p) => `${p.provider} ${p.provider_ref}` },
      { label: t("payments.status"), cell: (p) => chip(has(`payment.${p.status}`) ? t(`payment.${p.status}`) : p.status, p.status === "failed" ? "bad" : undefined) },
      { label: t("payments.amount"), number: true, cell: amount },
      { label: t("payments.created_at"), cell: (p) => stamp(p.created_at) },
      { label: t("payments.updated_at"), cell: (p) => stamp(p.updated_at) },
    ]);
    payments.set(o.payments);
    about.replaceChildren(
      h("div", { class: "panel", "data-order": o.id, "data-status": o.status },
        h("div", { class: "head" }, h("strong", {}, amount(o)), statusChip(o)),
        facts([
          [t("orders.phone"), phoneOf(o)], [t("orders.user_id"), h("a", { href: `/console/orders?user_id=${o.user_id}` }, o.user_id)],
          [t("orders.voucher_id"), h("a", { href: `/console/sales/${o.voucher_id}` }, o.voucher_id)],
          ...["created_at", "expires_at", "paid_at", "redeemed_at", "cancelled_at", "refunded_at"].map((at) => [t(`orders.${at}`), o[at] && stamp(o[at])]),
          [t("orders.ahead"), o.ahead == null ? "" : number(o.ahead)], [t("orders.reason"), o.reason && explain({ code: o.reason, status: 500 })],
        ]),
        o.moves.length > 0 ? h("div", { class: "actions" }, o.moves.map(move(o))) : h("p", { class: "note" }, t("move.none")),
        o.moves.includes("redeem") ? redeemNote : null),
      section(t("payments.title"), o.payments.length > 0 ? payments.element : h("p", { class: "note" }, t("payments.none"))));
  }

  root.replaceChildren(head(t("orders.number", { id }), h("a", { href: "/console/orders", class: "link" }, t("orders.back"))),
    h("div", { class: "bar" }, refresh), status.element, out.element, about, section(t("audit.title"), log.element));
  load().catch((problem) => {
    if (!problem.code) throw problem;
    about.replaceChildren();
    out.show(problem);
  });
  return () => {
    unmounted = true;
  };
}
