// The payment step: what is charged, for what, and how.

import { h, newID } from "../lib/dom.js";
import { languageOf, money, t } from "../lib/i18n.js";

// confirmPayment shows what an order costs and resolves to whether the buyer agreed.
export function confirmPayment(order, title) {
  return new Promise((resolve) => {
    const id = newID("pay");
    const amount = money(order.amount, order.currency);
    const sandbox = "sandbox" in document.documentElement.dataset;
    let agreed = false;
    const dialog = h("dialog", { class: "sheet", "aria-labelledby": id, onclose: () => { dialog.remove(); resolve(agreed); } },
      h("h2", { id }, t("pay.title")),
      h("p", { lang: languageOf(title) }, title),
      h("p", { class: "row" }, h("span", {}, t("pay.total")), h("strong", { class: "amount" }, amount)),
      h("p", { class: "note", "data-method": sandbox ? "sandbox" : "provider" }, t(sandbox ? "pay.sandbox" : "pay.provider")),
      h("div", { class: "actions" },
        h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, t("back")),
        h("button", { type: "button", class: "primary", onclick: () => { agreed = true; dialog.close(); } }, t("pay.now", { amount }))));
    document.body.append(dialog);
    dialog.showModal();
  });
}
