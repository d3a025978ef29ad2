// What payment providers reported and the server could not process.

import { h } from "../lib/dom.js";
import { stamp, t } from "../lib/i18n.js";
import { detailOf } from "./details.js";
import { form } from "./form.js";
import { worklist } from "./parts.js";

// mount shows the notices that are not closed, each with its body. An operator closes them with a reason.
export const mount = (root) => worklist(root, {
  name: "notices", path: "/admin/payment-notices", params: { state: "open" }, actions: closing,
  columns: [
    { label: t("notices.received_at"), cell: (n) => stamp(n.received_at) },
    { label: t("notices.reason"), cell: (n) => h("span", { lang: detailOf(n.reason)[1] }, detailOf(n.reason)[0]) },
    { label: t("notices.source"), cell: (n) => `${n.provider}, ${t(`notices.source.${n.source}`)}` },
    { label: t("payments.ref"), cell: (n) => n.provider_ref ?? "–" },
    { label: t("orders.one"), cell: (n) => (n.order_id ? h("a", { href: `/console/orders/${n.order_id}` }, n.order_id) : "–") },
    { label: t("notices.times"), number: true, cell: (n) => n.times },
    { label: t("notices.body"), cell: (n) => h("details", {}, h("summary", {}, t("notices.body")), h("pre", {}, n.body)) },
  ],
});

function closing(notice, { post, change }) {
  const f = form({
    name: `close-${notice.id}`, kind: "quiet", label: t("notices.close"),
    fields: [{ name: "reason", kind: "text", label: t("notices.why"), required: true, max: 255 }],
    work: (values) => change(post(`/admin/payment-notices/${notice.id}/close`, values), t("notices.closed")),
  });
  return h("details", { "data-notice": notice.id }, h("summary", {}, t("notices.close")), f.element);
}
