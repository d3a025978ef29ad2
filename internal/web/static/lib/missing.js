// The page for addresses that name nothing.

import { h } from "./dom.js";
import { t } from "./i18n.js";

// missing returns the mount function of the page. Its way on is the link to `home`, with the text of a key.
export const missing = (home, key) => (root) => {
  root.replaceChildren(
    h("header", { class: "lead" }, h("h1", { tabindex: -1 }, t("missing.title")), h("p", {}, t("missing.why"))),
    h("div", {}, h("a", { href: home, class: "button primary" }, t(key))));
};
