// The card of a sale beside its form, as buyers will see it.

import { BASE } from "../lib/api.js";
import { attr, h, show, text } from "../lib/dom.js";
import { discount, money, number, stamp, t } from "../lib/i18n.js";
import { section } from "./parts.js";

// preview returns the card of what a form contains; `currency` and `stock` are functions that return those of the sale.
export function preview(form, shops, { currency, stock }) {
  const image = h("img", { alt: "", class: "image" });
  const blank = h("div", { class: "image blank", "aria-hidden": "true" });
  const shop = h("p", { class: "sub" });
  const title = h("p", { class: "title" });
  const sub = h("p", { class: "sub" });
  const price = h("strong", {});
  const worth = h("s", {});
  const off = h("span", { class: "off" });
  const units = h("span", { class: "sub" });
  const starts = h("p", { class: "sub" });
  const element = section(t("sale.preview"), image, blank, shop, title, sub, h("p", { class: "price" }, price, " ", worth, " ", off), units, starts);
  attr(element, "data-preview", true);
  attr(element, "aria-live", "off");

  function update() {
    const id = form.value("image_id");
    attr(image, "src", id ? `${BASE}/images/${id}` : null);
    show(image, id);
    show(blank, !id);
    const at = shops.find((s) => s.id === form.value("shop_id"))?.name ?? "";
    text(shop, at);
    text(blank, [...(at || form.value("title") || "…")][0]);
    text(title, form.value("title") || t("preview.untitled"));
    text(sub, form.value("sub_title"));
    const pay = form.parsed("pay_value");
    const value = form.parsed("actual_value") ?? 0;
    text(price, pay === undefined ? "–" : money(pay, currency()));
    text(worth, value > 0 ? money(value, currency()) : "");
    text(off, discount(pay, value));
    show(off, off.textContent);
    text(units, stock() > 0 ? t("preview.stock", { n: number(stock()) }) : "");
    const begin = Date.parse(form.value("begin_at"));
    text(starts, Number.isNaN(begin) ? "" : t("preview.starts", { at: stamp(begin) }));
  }

  for (const event of ["input", "change"]) form.element.addEventListener(event, update);
  update();
  return { element, update };
}

// beside returns a form with its preview at the right, where there is room.
export const beside = (main, aside) => h("div", { class: "beside" }, main, h("aside", {}, aside));
