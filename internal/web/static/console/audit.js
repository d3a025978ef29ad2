// The audit log.

import { getMine } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { go } from "../lib/frame.js";
import { has, stamp, t } from "../lib/i18n.js";
import { auditDetailOf } from "./details.js";
import { form } from "./form.js";
import { download } from "./files.js";
import { errorBox, head, listing } from "./parts.js";

const filters = ["voucher_id", "order_id", "actor_id", "target"];

// columns returns the table columns of changes.
const columns = () => [
  { label: t("audit.at"), cell: (e) => stamp(e.at) },
  { label: t("audit.actor"), cell: (e) => t(`actor.${e.actor}`) + (e.actor_id ? ` ${e.actor_id}` : "") },
  { label: t("audit.action"), cell: (e) => (has(`action.${e.action}`) ? t(`action.${e.action}`) : e.action) },
  { label: t("audit.voucher_id"), cell: (e) => (e.voucher_id ? h("a", { href: `/console/sales/${e.voucher_id}` }, e.voucher_id) : "–") },
  { label: t("audit.order_id"), cell: (e) => (e.order_id ? h("a", { href: `/console/orders/${e.order_id}` }, e.order_id) : "–") },
  { label: t("audit.detail"), cell: (e) => h("div", {}, auditDetailOf(e).map((line) => h("div", {}, line))) },
];

// requestColumns returns the table columns of requests.
const requestColumns = () => [
  { label: t("audit.at"), cell: (r) => stamp(r.at) },
  { label: t("audit.actor"), cell: (r) => t(`actor.${r.actor}`) + (r.actor_id ? ` ${r.actor_id} (${r.role})` : "") },
  { label: t("audit.request"), cell: (r) => h("code", {}, `${r.method} ${r.route.replace("/api/v1", "")}`) },
  { label: t("audit.target"), cell: (r) => r.target ?? "–" },
  { label: t("audit.status"), cell: (r) => r.status ?? t("audit.unknown") },
  { label: t("audit.network"), cell: (r) => r.network ?? "–" },
];

// entries returns a listing of the entries that match a filter.
export const entries = (filter) => listing({
  caption: t("audit.title"), empty: t("audit.none"), columns: filter.kind === "request" ? requestColumns() : columns(),
  read: (cursor) => getMine(`/admin/audit?${new URLSearchParams({ limit: 50, ...filter, ...(cursor && { cursor }) })}`),
});

// mount shows the log. The filter is kept in the URL.
export function mount(root) {
  const query = new URLSearchParams(location.search);
  const kind = query.get("kind") === "request" ? "request" : "change";
  const kinds = ["change", "request"].map((name) => [name, t(`audit.kind.${name}`)]);
  const f = form({
    name: "filter", label: t("audit.show"), kind: "quiet",
    fields: [
      { name: "kind", kind: "choice", label: t("audit.kind"), options: kinds, value: kind },
      ...filters.map((name) => ({
        name, kind: name === "target" ? "text" : "id", max: 64, label: t(`audit.${name}`), value: query.get(name) ?? "",
        shown: (value) => name === "actor_id" || (name === "target") === (value("kind") === "request"),
      })),
    ],
    work: (values) => void go(`/console/audit?${new URLSearchParams(values)}`),
  });
  const log = entries({ kind, ...Object.fromEntries(filters.filter((name) => query.get(name)).map((name) => [name, query.get(name)])) });
  const out = errorBox();
  const voucher = kind === "change" ? query.get("voucher_id") : "";
  const file = { path: "/admin/audit.csv", query: { kind, ...(voucher && { voucher_id: voucher }) } };
  root.replaceChildren(head(t("audit.title"), h("p", {}, t("audit.lead"))), f.element,
    h("div", { class: "bar" }, download({ ...file, file: kind === "change" ? "audit" : "requests", out })), out.element, log.element);
  log.load();
  return () => {};
}
