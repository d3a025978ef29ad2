// The dead letters: queued orders that could not be committed.

import { confirm } from "../lib/confirm.js";
import { h } from "../lib/dom.js";
import { stamp, t } from "../lib/i18n.js";
import { saleLink } from "./names.js";
import { button, worklist } from "./parts.js";

// mount shows the dead letters, each with its actions.
export const mount = (root) => worklist(root, {
  name: "deadLetters", path: "/admin/dead-letters", actions,
  columns: [
    { label: t("deadLetters.buried_at"), cell: (l) => stamp(l.buried_at) },
    { label: t("orders.one"), cell: (l) => (l.order_id ? h("a", { href: `/console/orders/${l.order_id}?user_id=${l.user_id}` }, l.order_id) : "–") },
    { label: t("sale.title"), cell: (l) => (l.voucher_id ? saleLink(l.voucher_id) : "–") },
    { label: t("deadLetters.user_id"), cell: (l) => l.user_id ?? "–" },
    { label: t("deadLetters.reason"), cell: (l) => l.reason },
    { label: t("events.tries"), number: true, cell: (l) => l.tries },
  ],
});

function actions(letter, { out, post, change }) {
  const act = (name) => button({ name, out, label: t(`deadLetters.${name}`) }, async () => {
    if (!(await confirm(t(`deadLetters.sure.${name}`, { id: letter.order_id ?? letter.id }), t(`deadLetters.${name}`)))) return;
    await change(post(`/admin/dead-letters/${encodeURIComponent(letter.id)}/${name}`), t(`deadLetters.done.${name}`));
  });
  return h("div", { class: "row-actions", "data-letter": letter.id }, letter.order_id ? act("replay") : null, act("discard"));
}
