// The audit log: who did what, newest first.

import { getMine } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { go } from "../lib/frame.js";
import { has, stamp, t } from "../lib/i18n.js";
import { form } from "./form.js";
import { head, listing } from "./parts.js";

const filters = ["voucher_id", "order_id", "actor_id"];

// columns of entries, wherever they are shown.
export const columns = () => [
  { label: t("audit.at"), cell: (e) => stamp(e.at) },
  { label: t("audit.actor"), cell: (e) => t(`actor.${e.actor}`) + (e.actor_id ? ` ${e.actor_id}` : "") },
  { label: t("audit.action"), cell: (e) => (has(`action.${e.action}`) ? t(`action.${e.action}`) : e.action) },
  { label: t("audit.voucher_id"), cell: (e) => (e.voucher_id ? h("a", { href: `/console/sales/${e.voucher_id}` }, e.voucher_id) : "–") },
  { label: t("audit.order_id"), cell: (e) => (e.order_id ? h("a", { href: `/console/orders/${e.order_id}` }, e.order_id) : "–") },
  { label: t("audit.detail"), cell: (e) => e.detail },
];

// entries is a list of the entries that the filter selects.
export const entries = (filter) => listing({
  caption: t("audit.title"), empty: t("audit.none"), columns: columns(),
  read: (cursor) => getMine(`/admin/audit?${new URLSearchParams({ limit: 50, ...filter, ...(cursor && { cursor }) })}`),
});

// mount shows the log. The filter is in the address.
export function mount(root) {
  const asked = new URLSearchParams(location.search);
  const f = form({
    name: "filter", label: t("audit.show"), kind: "quiet",
    fields: filters.map((name) => ({ name, kind: "id", label: t(`audit.${name}`), value: asked.get(name) ?? "" })),
    work: (values) => void go(`/console/audit?${new URLSearchParams(values)}`),
  });
  const log = entries(Object.fromEntries(filters.filter((name) => asked.get(name)).map((name) => [name, asked.get(name)])));
  root.replaceChildren(head(t("audit.title"), h("p", {}, t("audit.lead"))), f.element, log.element);
  log.load();
  return () => {};
}
