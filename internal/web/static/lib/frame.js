// What is around a page: its header, its links, who is logged in, the language; and which page is shown. Pages of one
// frame follow each other without being loaded, for the access token lives in memory.

import { attr, h, show, text } from "./dom.js";
import { explain } from "./explain.js";
import * as i18n from "./i18n.js";
import { login } from "./login.js";
import { session } from "./session.js";

const { t } = i18n;
const root = document.getElementById("page");
const nav = document.getElementById("nav");
const who = document.getElementById("who");
let pages = [];
let links = () => [];
let foot = () => "";
let unmount = () => {};

const find = (path) => pages.find((p) => p.path.test(path));
const here = () => find(location.pathname) ?? pages[0];
const full = (url) => url.pathname + url.search;

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // it names nothing, whatever it is
  }
}

// open shows the page of the address.
function open(moved) {
  unmount();
  const page = here();
  unmount = page.mount(root, ...(page.path.exec(location.pathname) ?? []).slice(1).map(decode));
  document.title = `${t(page.title)} · ${t("brand")}`;
  mark();
  if (!moved) return;
  scrollTo(0, 0);
  root.querySelector("h1").focus({ preventScroll: true });
}

// go shows another page of the frame, and returns whether there is one at this path. What the address must not tell is in
// its state.
export function go(path, state = null) {
  const to = new URL(path, location.href);
  if (!find(to.pathname)) return false;
  if (full(to) !== full(location) || state !== history.state) history.pushState(state, "", full(to));
  open(true);
  return true;
}

// again shows the page anew, because who may see it has changed.
export const again = () => open(false);

function onClick(event) {
  const link = event.target.closest?.("a[href^='/']");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (go(link.href)) event.preventDefault();
}

// mark says which of the links is where we are.
function mark() {
  for (const link of nav.querySelectorAll("a")) attr(link, "aria-current", link.getAttribute("href") === here().nav ? "page" : null);
}

async function logout() {
  try {
    await session.logout();
  } catch (problem) {
    text(who.querySelector("output"), explain(problem));
  }
}

// write fills the frame in.
function write() {
  text(document.getElementById("brand"), t("brand"));
  text(document.getElementById("skip"), t("skip"));
  text(document.getElementById("foot"), foot());
  attr(nav, "aria-label", t("nav"));
  const user = session.user();
  nav.replaceChildren(...links(user).map(([href, key]) => h("a", { href }, t(key))));
  mark();
  const other = Object.keys(i18n.languages).find((l) => l !== i18n.language());
  const tongue = h("button", { type: "button", class: "quiet", "data-do": "language", lang: other === "zh" ? "zh-CN" : other, onclick: () => i18n.speak(other) }, i18n.languages[other]);
  const phone = user ? user.phone.replace(/^(.*)(....)(....)$/, "$1····$3") : "";
  const button = (name, press) => h("button", { type: "button", class: "quiet", "data-do": name, onclick: press }, t(name));
  who.replaceChildren(h("output", {}), tongue, ...(user
    ? [h("span", { class: "phone" }, h("span", { class: "sr" }, t("login.as"), " "), phone), button("logout", logout)]
    : [button("login", () => login())]));
  show(who, true);
}

// start fills the frame in and shows the page of the address. Options: `texts`; `pages`, which are {path, title, mount,
// nav}: a regular expression whose groups are given to mount, the key of the title, what shows the page in an element and
// returns what takes it away again, and which of the links it belongs to; `links(user)` to [path, key of the text];
// `foot()`. The session is not taken up yet.
export function start(options) {
  ({ pages, links, foot } = options);
  i18n.use(options.texts);
  document.addEventListener("click", onClick);
  addEventListener("popstate", () => open(true));
  write();
  open(false);
  session.on(write);
  i18n.onLanguage(() => {
    const spoken = who.contains(document.activeElement);
    write();
    open(false);
    if (spoken) who.querySelector("button").focus();
  });
}
