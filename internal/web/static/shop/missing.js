// The page for addresses that do not exist.

import { h } from "../lib/dom.js";
import { t } from "../lib/i18n.js";

export function mount(root) {
  root.replaceChildren(
    h("header", { class: "lead" }, h("h1", { tabindex: -1 }, t("missing.title")), h("p", {}, t("missing.why"))),
    h("div", {}, h("a", { href: "/", class: "button primary" }, t("store.all"))));
  return () => {};
}
