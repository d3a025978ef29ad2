// The console: its pages and navigation, for users with a role above buyer.

import { h, show, text } from "../lib/dom.js";
import { explain } from "../lib/explain.js";
import * as frame from "../lib/frame.js";
import { t, zone } from "../lib/i18n.js";
import { login } from "../lib/login.js";
import { missing } from "../lib/missing.js";
import { session } from "../lib/session.js";
import { account } from "./account.js";
import * as alerts from "./alerts.js";
import * as audit from "./audit.js";
import * as deadLetters from "./dead_letters.js";
import * as edit from "./edit.js";
import * as events from "./events.js";
import { forget } from "./form.js";
import * as home from "./home.js";
import { menu } from "./menu.js";
import * as notices from "./notices.js";
import * as orders from "./orders.js";
import { head } from "./parts.js";
import * as reconcile from "./reconcile.js";
import * as redeem from "./redeem.js";
import * as rush from "./rush.js";
import * as sale from "./sale.js";
import * as sales from "./sales.js";
import * as shops from "./shops.js";
import texts from "./texts.js";

let sessionKnown = false;
let outage = ""; // why the session is not restored yet
let shown = ""; // path of the current page

// landing returns the page on which the user's role begins.
const landing = () => (session.may("read") ? "/console" : "/console/redeem");

// guarded shows a page to users with a permission. Guests and buyers get a login button or a hint instead of a page
// of rejected requests, and staff without the permission the page of their role; the access check itself is the server's.
const guarded = (title, mount, permission) => (root, ...args) => {
  if (location.pathname !== shown) forget();
  shown = location.pathname;
  const user = session.user();
  if (session.may(permission)) return mount(root, ...args);
  const notice = h("p", { class: "empty", "data-gate": true });
  const enter = h("button", { type: "button", class: "primary", "data-do": "enter", onclick: () => login() }, t("login"));
  const staff = user?.permissions?.length > 0;
  const waiting = !user && !sessionKnown ? `${outage} ${t("loading")}` : staff ? t("loading") : "";
  text(notice, waiting || t(user ? "access.buyer" : session.lastPhone() ? "login.ended" : "access.guest"));
  show(enter, sessionKnown && !user);
  root.replaceChildren(head(t(title)), notice, h("div", { class: "center" }, enter,
    user && !staff ? h("a", { href: "/", class: "button primary" }, t("access.shop")) : null));
  if (staff && location.pathname !== landing()) {
    history.replaceState(null, "", landing());
    queueMicrotask(frame.reload); // this page is still being shown
  }
};

// The navigation: path, title and permission of each page in it. The menu System groups what engineers look at.
const daily = [
  ["/console", "home.title", "read"], ["/console/sales", "sales.nav", "read"], ["/console/orders", "orders.title", "read"],
  ["/console/redeem", "redeem.page", "redeem"], ["/console/shops", "shops.title", "read"],
];
const system = [
  ["/console/dead-letters", "deadLetters.title", "read"], ["/console/events", "events.nav", "read"], ["/console/notices", "notices.nav", "read"],
  ["/console/reconcile", "reconcile.title", "read"], ["/console/audit", "audit.title", "read"], ["/console/rush", "rush.title", "administer"],
];
// linksOf returns the links of the pages that the user may see.
const linksOf = (pages) => pages.filter(([, , permission]) => session.may(permission)).map(([path, title]) => frame.link(path, title));

const page = (path, title, mount, nav, permission = [...daily, ...system].find(([of]) => of === nav)[2]) => ({ path, title, nav, mount: guarded(title, mount, permission) });

frame.start({
  texts, account,
  pages: [
    page(/^\/console$/, "home.title", home.mount, "/console"),
    page(/^\/console\/sales$/, "sales.title", sales.list, "/console/sales"),
    page(/^\/console\/new$/, "sales.new", sales.make, "/console/sales", "operate"),
    page(/^\/console\/sales\/(\d+)$/, "sale.title", sale.mount, "/console/sales"),
    page(/^\/console\/sales\/(\d+)\/edit$/, "sale.change", edit.mount, "/console/sales", "operate"),
    page(/^\/console\/orders$/, "orders.title", orders.list, "/console/orders"),
    page(/^\/console\/orders\/(\d+)$/, "orders.one", orders.one, "/console/orders"),
    page(/^\/console\/redeem$/, "redeem.page", redeem.mount, "/console/redeem"),
    page(/^\/console\/shops$/, "shops.title", shops.list, "/console/shops"),
    page(/^\/console\/shops\/(\d+)$/, "voucher.shop_id", shops.one, "/console/shops", "operate"),
    page(/^\/console\/dead-letters$/, "deadLetters.title", deadLetters.mount, "/console/dead-letters"),
    page(/^\/console\/events$/, "events.title", events.mount, "/console/events"),
    page(/^\/console\/notices$/, "notices.title", notices.mount, "/console/notices"),
    page(/^\/console\/reconcile$/, "reconcile.title", reconcile.mount, "/console/reconcile"),
    page(/^\/console\/audit$/, "audit.title", audit.mount, "/console/audit"),
    page(/^\/console\/rush$/, "rush.title", rush.mount, "/console/rush"),
  ],
  missing: { title: "missing.title", mount: guarded("missing.title", missing("/console", "home.title"), "read") },
  links: () => [...linksOf(daily), menu(linksOf(system))],
  foot: () => t("foot", { zone: zone() }),
});

session.on(frame.reload);
alerts.start();
session.start((problem) => {
  outage = explain(problem);
  frame.reload();
}).finally(() => {
  sessionKnown = true;
  if (!session.user()) frame.reload();
});
