// What payment providers reported and the server could not process.

import { getMine } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import { detailOf } from "./details.js";
import { form } from "./form.js";
import { button, errorBox, head, listing, statusLine } from "./parts.js";

// mount shows the notices that are not closed, each with its body. An operator closes them with a reason.
export function mount(root) {
  const post = intents();
  const out = errorBox();
  const status = statusLine();
  const all = listing({
    caption: t("notices.title"), empty: t("notices.none"),
    columns: [
      { label: t("notices.received_at"), cell: (n) => stamp(n.received_at) },
      { label: t("notices.reason"), cell: (n) => h("span", { lang: detailOf(n.reason)[1] }, detailOf(n.reason)[0]) },
      { label: t("notices.source"), cell: (n) => `${n.provider}, ${t(`notices.source.${n.source}`)}` },
      { label: t("payments.ref"), cell: (n) => n.provider_ref ?? "–" },
      { label: t("orders.one"), cell: (n) => (n.order_id ? h("a", { href: `/console/orders/${n.order_id}` }, n.order_id) : "–") },
      { label: t("notices.times"), number: true, cell: (n) => n.times },
      { label: t("notices.body"), cell: (n) => h("details", {}, h("summary", {}, t("notices.body")), h("pre", {}, n.body)) },
      ...(session.may("operate") ? [{ label: t("notices.do"), cell: closing }] : []),
    ],
    read: (cursor) => getMine(`/admin/payment-notices?${new URLSearchParams({ state: "open", limit: 50, ...(cursor && { cursor }) })}`),
  });

  function closing(notice) {
    const f = form({
      name: `close-${notice.id}`, kind: "quiet", label: t("notices.close"),
      fields: [{ name: "reason", kind: "text", label: t("notices.why"), required: true, max: 255 }],
      work: async (values) => {
        status.clear();
        try {
          await post(`/admin/payment-notices/${notice.id}/close`, values);
          status.show(t("notices.closed"));
        } finally {
          await all.load(); // the request may have succeeded although its answer was lost
        }
      },
    });
    return h("details", { "data-notice": notice.id }, h("summary", {}, t("notices.close")), f.element);
  }

  root.replaceChildren(head(t("notices.title"), h("p", {}, t("notices.lead"))),
    h("div", { class: "bar" }, button({ name: "refresh", out }, () => all.load())), status.element, out.element, all.element);
  all.load();
}
