// The audit log.

import { h } from "../lib/dom.js";
import { go } from "../lib/frame.js";
import { has, stamp, t } from "../lib/i18n.js";
import { auditDetailOf } from "./details.js";
import { form } from "./form.js";
import { download } from "./files.js";
import { named, saleLink } from "./names.js";
import { errorBox, finder, head, listing, pages } from "./parts.js";

const ids = ["voucher_id", "order_id", "actor_id"];
const actors = ["admin", "buyer", "provider", "system"];
const actions = [
  "create_voucher", "change_voucher", "delete_voucher", "change_stock", "change_room", "revoke_passes", "create_shop", "change_shop",
  "pay", "cancel", "expire", "redeem", "undo_redeem", "refund", "refunded", "dispute", "return_outside", "return_money", "money_returned",
  "close_notice", "replay_dead_letter", "discard_dead_letter",
];

// actorOf returns the kind of an actor, and the person.
const actorOf = (e, more = "") => h("span", {}, t(`actor.${e.actor}`), more, e.actor_id ? [" ", named(e.actor_phone ?? "", e.actor_id)] : null);

// columns returns the table columns of changes.
const columns = () => [
  { label: t("audit.at"), cell: (e) => stamp(e.at) },
  { label: t("audit.actor"), cell: (e) => actorOf(e) },
  { label: t("audit.find.action"), cell: (e) => (has(`action.${e.action}`) ? t(`action.${e.action}`) : e.action) },
  { label: t("sale.title"), cell: (e) => (e.voucher_id ? saleLink(e.voucher_id) : "–") },
  { label: t("orders.one"), cell: (e) => (e.order_id ? h("a", { href: `/console/orders/${e.order_id}` }, e.order_id) : "–") },
  { label: t("audit.detail"), cell: (e) => h("div", {}, auditDetailOf(e).map((line) => h("div", {}, line))) },
];

// requestColumns returns the table columns of requests.
const requestColumns = () => [
  { label: t("audit.at"), cell: (r) => stamp(r.at) },
  { label: t("audit.actor"), cell: (r) => actorOf(r, r.role ? ` · ${t(`role.${r.role}`)}` : "") },
  { label: t("audit.request"), cell: (r) => h("code", {}, `${r.method} ${r.route.replace("/api/v1", "")}`) },
  { label: t("audit.find.target"), cell: (r) => r.target ?? "–" },
  { label: t("audit.status"), cell: (r) => r.status ?? t("audit.unknown") },
  { label: t("audit.network"), cell: (r) => r.network ?? "–" },
];

// entries returns a listing of the entries that match a filter.
export const entries = (filter) => listing({
  caption: t("audit.title"), empty: t("audit.none"), columns: filter.kind === "request" ? requestColumns() : columns(),
  read: pages("/admin/audit", filter),
});

// mount shows the log. The filter is kept in the URL; without one it shows what staff changed. A search that names no actor is
// for the changes of all.
export function mount(root) {
  const query = new URLSearchParams(location.search);
  const given = (name) => query.get(name) ?? "";
  const kind = given("kind") === "request" ? "request" : "change";
  const actor = query.has("actor") ? given("actor") : [...ids, "action"].some(given) ? "" : "admin";
  const options = (group, names, any) => [...(any ? [["", t(any)]] : []), ...names.map((name) => [name, t(`${group}.${name}`)])];
  const inKind = (of) => (value) => value("kind") === of;
  const f = form({
    name: "filter", label: t("audit.show"), kind: "quiet",
    fields: [
      { name: "kind", kind: "choice", options: options("audit.kind", ["change", "request"]), value: kind },
      { name: "actor", kind: "choice", options: options("audit.by", actors, "audit.by.any"), value: actor, empty: "", shown: inKind("change") },
      { name: "action", kind: "choice", options: options("action", actions, "orders.any"), value: given("action"), shown: inKind("change") },
      { name: "actor_id", kind: "id", value: given("actor_id") },
      ...["voucher_id", "order_id"].map((name) => ({ name, kind: "id", value: given(name), shown: inKind("change") })),
      { name: "target", kind: "text", max: 64, value: given("target"), shown: inKind("request") },
    ].map((field) => ({ label: t(`audit.find.${field.name}`), ...field })),
    work: (values, own) => {
      const chosen = query.has("actor") || own.edited().some(([name]) => name === "actor");
      if (!chosen) delete values.actor;
      go(`/console/audit?${new URLSearchParams(values)}`);
    },
  });
  const names = kind === "change" ? [...ids, "action"] : ["actor_id", "target"];
  const filter = Object.fromEntries(names.filter(given).map((name) => [name, given(name)]));
  const log = entries({ kind, ...filter, ...(kind === "change" && actor && { actor }) });
  const out = errorBox();
  const voucher = kind === "change" ? given("voucher_id") : "";
  const file = { path: "/admin/audit.csv", query: { kind, ...(voucher && { voucher_id: voucher }) } };
  root.replaceChildren(head(t("audit.title"), h("p", {}, t("audit.lead"))), finder(t("audit.find"), f.element),
    h("div", { class: "bar" }, download({ ...file, file: kind === "change" ? "audit" : "requests", out })), out.element, log.element);
  log.load();
}
