// The refunds of all paid orders of a sale.

import { getMine } from "../lib/api.js";
import { confirm } from "../lib/confirm.js";
import { attr, h, show, text } from "../lib/dom.js";
import { money, number, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import { button, errorBox, statusLine } from "./parts.js";

// refunds returns the button for a sale, and the progress below it. The server begins refunds for about two seconds per
// request, so the page repeats the request until no paid order is left, or until it is left itself.
export function refunds(id) {
  const path = `/admin/vouchers/${id}/refunds`;
  const post = intents();
  const out = errorBox();
  const status = statusLine();
  const bar = h("progress", { "aria-label": t("refunds.progress") });
  const words = h("p", { class: "note" });
  const progress = h("div", { "data-refunds": true }, bar, words);
  let title = "";
  let over = false;
  let paid = 0;

  const start = button({ name: "refund-all", label: t("refunds.do"), out }, async () => {
    status.clear();
    const all = await getMine(path);
    if (all.orders === 0) return status.show(t("refunds.none"));
    const sum = money(all.amount, all.currency);
    if (!(await confirm(t("refunds.sure", { n: number(all.orders), sum, title }), t("refunds.yes", { n: number(all.orders) }), t("refunds.note")))) return;
    let begun = 0;
    const add = (n) => {
      begun += n;
      attr(bar, "max", Math.max(all.orders, begun));
      attr(bar, "value", begun);
      text(words, t("refunds.of", { n: number(begun), all: number(Math.max(all.orders, begun)) }));
    };
    add(0);
    show(progress, true);
    try {
      for (let more = true; more && progress.isConnected; ) {
        const answer = await post(path);
        add(answer.begun);
        more = answer.more;
      }
    } finally {
      show(progress, false);
    }
    if (!progress.isConnected) return; // the rest waits for another press
    status.show(t("refunds.done", { n: number(begun) }));
  });

  const update = () => show(start, session.may("operate") && over && paid > 0);

  show(progress, false);
  update();
  return {
    start,
    element: h("div", {}, progress, status.element, out.element),
    // render shows the button if the voucher is not open, since the units would be sold again, and orders are paid.
    render(v) {
      ({ title } = v);
      over = v.type === "seckill" && v.status !== "draft" && (v.status !== "on" || v.state === "ended");
      update();
    },
    // count receives the orders by status.
    count(orders) {
      paid = orders.paid ?? 0;
      update();
    },
  };
}
