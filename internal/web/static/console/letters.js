// The dead letters: orders of the queue that could not be made.

import { getMine } from "../lib/api.js";
import { confirm } from "../lib/confirm.js";
import { h } from "../lib/dom.js";
import { stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { button, done, head, listing, trouble } from "./parts.js";

// mount shows them, each with what can be done about it.
export function mount(root) {
  const post = intents();
  const out = trouble();
  const told = done();
  const all = listing({
    caption: t("letters.title"), empty: t("letters.none"),
    columns: [
      { label: t("letters.buried_at"), cell: (l) => stamp(l.buried_at) },
      { label: t("letters.order_id"), cell: (l) => (l.order_id ? h("a", { href: `/console/orders/${l.order_id}?user_id=${l.user_id}` }, l.order_id) : "–") },
      { label: t("letters.voucher_id"), cell: (l) => (l.voucher_id ? h("a", { href: `/console/sales/${l.voucher_id}` }, l.voucher_id) : "–") },
      { label: t("letters.user_id"), cell: (l) => l.user_id ?? "–" },
      { label: t("letters.reason"), cell: (l) => l.reason },
      { label: t("letters.tries"), number: true, cell: (l) => l.tries },
      { label: t("letters.do"), cell: actions },
    ],
    read: (cursor) => getMine(`/admin/dead-letters?${new URLSearchParams({ limit: 50, ...(cursor && { cursor }) })}`),
  });

  function actions(letter) {
    const act = (name) => button({ name, out, label: t(`letters.${name}`) }, async () => {
      told.clear();
      if (!(await confirm(t(`letters.sure.${name}`, { id: letter.order_id ?? letter.id }), t(`letters.${name}`)))) return;
      try {
        await post(`/admin/dead-letters/${encodeURIComponent(letter.id)}/${name}`);
        told.say(t(`letters.done.${name}`));
      } finally {
        await all.load(); // it may be gone although nobody said so
      }
    });
    return h("div", { class: "row-actions", "data-letter": letter.id }, letter.order_id ? act("replay") : null, act("discard"));
  }

  root.replaceChildren(head(t("letters.title"), h("p", {}, t("letters.lead"))),
    h("div", { class: "bar" }, button({ name: "refresh", out }, () => all.load())), told.element, out.element, all.element);
  all.load();
  return () => {};
}
