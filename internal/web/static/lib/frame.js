// The frame around a page: header, navigation, login state, language, and the router. Pages of one frame are shown
// without a page load, because the access token is kept in memory only.

import { attr, focusPage, h, keepFocusNear, show, text } from "./dom.js";
import { explain } from "./explain.js";
import { icon } from "./icon.js";
import * as i18n from "./i18n.js";
import { singleFlight } from "./intent.js";
import { login } from "./login.js";
import { session } from "./session.js";

const { t } = i18n;
const root = document.getElementById("page");
const nav = document.getElementById("nav");
const account = document.getElementById("account");
let pages;
let missing;
let links;
let foot;
let badge;
let openAccount;
let unmount = () => {};
let shown = ""; // the path of the page
let titled = ""; // the title of the page; a browser that translates it shows another one

const find = (path) => pages.find((p) => p.path.test(path));
const here = () => find(location.pathname) ?? missing;
const full = (url) => url.pathname + url.search;
const home = document.querySelector(".brand").getAttribute("href");
const staff = home === "/console";

// shop is how the operator presents the shop: name, logo, color, imprint and privacy, as far as SECKILL_SHOP_... are set.
const shop = JSON.parse(document.documentElement.dataset.shop ?? "{}");

// open shows the page for the current address. `moved` means that the address has changed.
function open(moved) {
  unmount();
  shown = location.pathname;
  const page = here();
  unmount = page.mount(root, ...(page.path?.exec(location.pathname) ?? []).slice(1)) ?? (() => {});
  showTitle();
  markCurrent();
  if (!moved) return;
  scrollTo(0, 0);
  focusPage();
}

// back shows the page before, at the link that led away from it, if that is there. A question of the page that is left is not
// agreed to.
function back() {
  const from = shown;
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  open(true);
  [...root.querySelectorAll("a")].find((link) => link.getAttribute("href") === from)?.focus();
}

// brand is the name of the shop, in the header and in the titles of the pages.
function brand() {
  if (!shop.name) return t("brand");
  return staff ? `${shop.name} · ${t("console")}` : shop.name;
}

// luminance is the relative luminance of a colour #rrggbb, from 0 to 1 (WCAG 2.2).
function luminance(color) {
  const [red, green, blue] = [1, 3, 5]
    .map((at) => parseInt(color.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// dress shows the logo and the colour of the shop.
function dress() {
  if (shop.logo) document.querySelector(".mark").replaceWith(h("img", { class: "mark", src: shop.logo, alt: "" }));
  if (!shop.color) return;
  const { style } = document.documentElement;
  style.setProperty("--accent", shop.color);
  style.setProperty("--accent-press", `color-mix(in srgb, ${shop.color} 85%, ${luminance(shop.color) > 0.179 ? "white" : "black"})`);
  // Black and white contrast equally with a luminance of 0.179.
  style.setProperty("--accent-ink", luminance(shop.color) > 0.179 ? "#000" : "#fff");
}

// showTitle sets the title of the page, which begins with the badge.
export function showTitle() {
  const { title } = here();
  const words = [badge(), typeof title === "function" ? title() : t(title), brand()].filter(Boolean).join(" · ");
  if (words !== titled) document.title = titled = words;
}

// go navigates to a page of this frame and returns false if the path belongs to none. Data that must not appear in the
// URL goes into `state`.
export function go(path, state = null) {
  const to = new URL(path, location.href);
  if (!find(to.pathname)) return false;
  if (full(to) !== full(location) || state !== history.state) history.pushState(state, "", full(to));
  open(true);
  return true;
}

// goFrom navigates after a request of the page `from`, unless the visitor has gone elsewhere meanwhile.
export const goFrom = (from, path) => location.pathname === from && go(path);

// reload shows the current page again, after a change of the session.
export const reload = () => open(false);

function onClick(event) {
  const link = event.target.closest?.("a[href^='/']");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (go(link.href)) event.preventDefault();
}

// markCurrent marks the navigation link of the current page.
function markCurrent() {
  for (const link of nav.querySelectorAll("a")) {
    const current = link.getAttribute("href") === here().nav;
    attr(link, "aria-current", current ? "page" : null);
    if (current) nav.scrollLeft = link.offsetLeft - nav.offsetLeft; // the links may scroll on a narrow screen
  }
}

const accountButton = (name, press, ...sign) => h("button", {
  type: "button", class: "quiet", "data-do": name, onclick: press,
}, sign, h("span", { class: "word" }, t(name)));

// leave returns the button that logs out.
function leave() {
  const say = (words) => text(account.querySelector("output"), words);
  const button = accountButton("logout", (event) => press(event), icon("exit"));
  const press = singleFlight(button, { clear: () => say(""), show: (problem) => say(explain(problem)) }, session.logout);
  return button;
}

// accountOf returns the button with the phone of the user, which opens the account dialog.
const accountOf = (phone) => h("button", {
  type: "button", class: "phone link", "data-do": "account", "aria-haspopup": "dialog", onclick: openAccount,
}, icon("user"), h("span", { class: "word" }, h("span", { class: "sr" }, t("login.as"), " "), phone));

// more returns the links of the footer: what the law asks of a shop, and the other pages of this server. Only a demo leads the visitors of the shop to the
// console and to what developers read.
function more() {
  const demo = "demo" in document.documentElement.dataset;
  const lang = i18n.language();
  const to = [
    [shop.imprint, "more.imprint", !staff && shop.imprint], [shop.privacy, "more.privacy", !staff && shop.privacy],
    ["/", "more.shop", staff], ["/console", "console", !staff && demo],
    [`/docs?lang=${lang}`, "more.docs", staff || demo], [`/problems?lang=${lang}`, "more.problems", staff || demo],
  ];
  return to.filter(([, , shown]) => shown).map(([href, key]) => h("a", { href }, t(key)));
}

// link returns a link of the navigation. A phone shows only its icon, if it has one.
export const link = (href, key, name) => h("a", { href }, name && icon(name), h("span", { class: "word" }, t(key)));

// render fills in the frame's texts and controls.
function render() {
  text(document.getElementById("brand"), brand());
  text(document.getElementById("skip"), t("skip"));
  text(document.getElementById("foot"), foot());
  const elsewhere = document.getElementById("more");
  attr(elsewhere, "aria-label", t("more.nav"));
  elsewhere.replaceChildren(...more());
  attr(nav, "aria-label", t("nav"));
  const user = session.user();
  nav.replaceChildren(...links(user));
  markCurrent();
  const other = Object.keys(i18n.languages).find((l) => l !== i18n.language());
  const switchLanguage = h("button", { type: "button", class: "quiet", "data-do": "language", lang: other === "zh" ? "zh-CN" : other, onclick: () => i18n.choose(other) }, i18n.languages[other]);
  const phone = user ? user.phone.replace(/^(.*)(....)(....)$/, "$1····$3") : "";
  const held = account.contains(document.activeElement) ? document.activeElement.dataset.do : null;
  account.replaceChildren(h("output", {}), switchLanguage, ...(user
    ? [accountOf(phone), leave()]
    : session.pending() ? [] : [accountButton("login", () => login())]));
  if (held) account.querySelector(`[data-do="${held}"]`)?.focus();
  show(account, true);
}

// start renders the frame and shows the page for the current address. Options: `texts`; `pages` as {path, title, mount,
// nav}, and `missing` for other addresses, without a path; `links(user)`, which returns what the navigation contains; `foot()`;
// `badge()`, the beginning of the page's title; `account()`, which opens the account dialog. The groups of the regular expression
// `path` are arguments of mount(root, ...), which shows the page and may return a function that ends it. `title` is a text key
// or a function that returns the title, `nav` the path of the navigation link that the page belongs to. The session is not
// loaded yet at this time.
export function start(options) {
  ({ pages, missing, links, foot, account: openAccount, badge = () => "" } = options);
  i18n.use(options.texts);
  dress();
  keepFocusNear();
  document.addEventListener("click", onClick);
  addEventListener("popstate", back);
  render();
  open(false);
  session.on(render);
  i18n.onLanguage(() => {
    render();
    open(false);
  });
}
