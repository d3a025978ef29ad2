// The payment step: what is charged, for what, and how.

import { confirm } from "../lib/confirm.js";
import { h } from "../lib/dom.js";
import { languageOf, money, t } from "../lib/i18n.js";

// confirmPayment shows what an order costs and resolves to whether the buyer agreed.
export function confirmPayment(order, title) {
  const amount = money(order.amount, order.currency);
  return confirm(t("pay.title"), t("pay.now", { amount }), [
    h("p", { lang: languageOf(title) }, title),
    h("p", { class: "row" }, t("pay.total"), h("strong", { class: "amount" }, amount)),
    h("p", {}, t("sandbox" in document.documentElement.dataset ? "pay.sandbox" : "pay.provider")),
  ]);
}
