// The menu of the header that groups the pages of the system.

import { h } from "../lib/dom.js";
import { onLanguage, t } from "../lib/i18n.js";
import { session } from "../lib/session.js";

const nav = document.getElementById("nav");

// start moves the links of the paths into the menu, and does so again whenever the frame has rendered the header.
export function start(paths) {
  let menu = null;

  function group() {
    const links = [...nav.querySelectorAll("a")].filter((link) => paths.includes(link.getAttribute("href")));
    menu = h("details", { class: "menu", "data-menu": true }, h("summary", {}, t("system.nav")), h("div", {}, links));
    if (links.length > 0) nav.append(menu);
  }

  function close(event) {
    const inside = menu.contains(event.target);
    if (event.type === "keydown" ? event.key === "Escape" : !inside || event.target.closest("a")) menu.open = false;
    if (event.key === "Escape" && inside) menu.querySelector("summary").focus();
  }

  group();
  session.on(group);
  onLanguage(group);
  document.addEventListener("click", close);
  document.addEventListener("keydown", close);
}
