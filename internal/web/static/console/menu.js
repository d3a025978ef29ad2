// The menu of the header that groups the pages of the system.

import { h } from "../lib/dom.js";
import { t } from "../lib/i18n.js";

// menu returns the menu of some links; "" if there are none.
export const menu = (links) => (links.length > 0 ? h("details", { class: "menu", "data-menu": true }, h("summary", {}, t("system.nav")), h("div", {}, links)) : "");

// close closes the menu after a press elsewhere, on one of its links, or on Escape.
function close(event) {
  const open = document.querySelector("[data-menu][open]");
  const inside = open?.contains(event.target);
  if (event.type === "keydown" ? event.key !== "Escape" : inside && !event.target.closest("a")) return;
  open?.removeAttribute("open");
  if (event.key === "Escape" && inside) open.querySelector("summary").focus();
}

document.addEventListener("click", close);
document.addEventListener("keydown", close);
