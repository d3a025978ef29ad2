// The dead letters: queued orders that could not be committed.

import { getMine } from "../lib/api.js";
import { confirm } from "../lib/confirm.js";
import { h } from "../lib/dom.js";
import { stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import { saleLink } from "./names.js";
import { button, errorBox, head, listing, statusLine } from "./parts.js";

// mount shows the dead letters, each with its actions.
export function mount(root) {
  const post = intents();
  const out = errorBox();
  const status = statusLine();
  const all = listing({
    caption: t("deadLetters.title"), empty: t("deadLetters.none"),
    columns: [
      { label: t("deadLetters.buried_at"), cell: (l) => stamp(l.buried_at) },
      { label: t("orders.one"), cell: (l) => (l.order_id ? h("a", { href: `/console/orders/${l.order_id}?user_id=${l.user_id}` }, l.order_id) : "–") },
      { label: t("sale.title"), cell: (l) => (l.voucher_id ? saleLink(l.voucher_id) : "–") },
      { label: t("deadLetters.user_id"), cell: (l) => l.user_id ?? "–" },
      { label: t("deadLetters.reason"), cell: (l) => l.reason },
      { label: t("events.tries"), number: true, cell: (l) => l.tries },
      ...(session.may("operate") ? [{ label: t("events.do"), cell: actions }] : []),
    ],
    read: (cursor) => getMine(`/admin/dead-letters?${new URLSearchParams({ limit: 50, ...(cursor && { cursor }) })}`),
  });

  function actions(letter) {
    const act = (name) => button({ name, out, label: t(`deadLetters.${name}`) }, async () => {
      status.clear();
      if (!(await confirm(t(`deadLetters.sure.${name}`, { id: letter.order_id ?? letter.id }), t(`deadLetters.${name}`)))) return;
      try {
        await post(`/admin/dead-letters/${encodeURIComponent(letter.id)}/${name}`);
        status.show(t(`deadLetters.done.${name}`));
      } finally {
        await all.load(); // the action may have succeeded although its answer was lost
      }
    });
    return h("div", { class: "row-actions", "data-letter": letter.id }, letter.order_id ? act("replay") : null, act("discard"));
  }

  root.replaceChildren(head(t("deadLetters.title"), h("p", {}, t("deadLetters.lead"))),
    h("div", { class: "bar" }, button({ name: "refresh", out }, () => all.load())), status.element, out.element, all.element);
  all.load();
}
