// The storefront: its frame, and which page is shown.

import { attr, h, show, text } from "../lib/dom.js";
import * as i18n from "../lib/i18n.js";
import { session } from "../lib/session.js";
import * as buy from "./buy.js";
import { explain } from "./explain.js";
import { login } from "./login.js";
import * as mine from "./mine.js";
import { mount as orders } from "./orders.js";
import * as sales from "./sales.js";
import { mount as store } from "./store.js";
import texts from "./texts.js";

const { t } = i18n;
const root = document.getElementById("page");
let unmount = () => {};

// pages by the path that they are at.
const pages = [
  { path: /^\/$/, title: "store.title", mount: store, nav: "/" },
  { path: /^\/orders$/, title: "orders.title", mount: orders, nav: "/orders" },
  { path: /^\/orders\/([^/]+)$/, title: "orders.one", mount: orders, nav: "/orders" },
];

const here = () => pages.find((p) => p.path.test(location.pathname)) ?? pages[0];

function open(moved) {
  unmount();
  const page = here();
  unmount = page.mount(root, ...(page.path.exec(location.pathname) ?? []).slice(1));
  document.title = `${t(page.title)} · ${t("brand")}`;
  mark();
  if (!moved) return;
  scrollTo(0, 0);
  root.querySelector("h1").focus({ preventScroll: true });
}

// Links within the shop change the page without loading it: the access token lives in memory.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='/']");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  if (link.pathname !== location.pathname) history.pushState(null, "", link.pathname);
  open(true);
});
addEventListener("popstate", () => open(true));

// mark says which of the links is where we are.
function mark() {
  for (const link of nav.querySelectorAll("a")) attr(link, "aria-current", link.getAttribute("href") === here().nav ? "page" : null);
}

const nav = document.getElementById("nav");
const who = document.getElementById("who");

async function logout() {
  try {
    await session.logout();
  } catch (problem) {
    text(who.querySelector("output"), explain(problem));
  }
}

// frame writes what is around the page.
function frame() {
  text(document.getElementById("brand"), t("brand"));
  text(document.getElementById("skip"), t("skip"));
  text(document.getElementById("foot"), t("foot"));
  attr(nav, "aria-label", t("nav"));
  nav.replaceChildren(h("a", { href: "/" }, t("store.nav")), h("a", { href: "/orders" }, t("orders.nav")));
  mark();
  const user = session.user();
  const other = Object.keys(i18n.languages).find((l) => l !== i18n.language());
  const tongue = h("button", { type: "button", class: "quiet", "data-do": "language", lang: other === "zh" ? "zh-CN" : other, onclick: () => i18n.speak(other) }, i18n.languages[other]);
  const phone = user ? user.phone.replace(/^(.*)(....)(....)$/, "$1····$3") : "";
  const button = (name, press) => h("button", { type: "button", class: "quiet", "data-do": name, onclick: press }, t(name));
  who.replaceChildren(h("output", {}), tongue, ...(user
    ? [h("span", { class: "phone" }, h("span", { class: "sr" }, t("login.as"), " "), phone), button("logout", logout)]
    : [button("login", () => login())]));
  show(who, true);
}

i18n.use(texts);
sales.start();
buy.start();
frame();
open(false);
session.on(frame);
i18n.onLanguage(() => {
  const spoken = who.contains(document.activeElement);
  frame();
  open(false);
  if (spoken) who.querySelector("button").focus();
});
mine.start();
session.start();
