// The console: which pages there are, and who may see them.

import { h, show, text } from "../lib/dom.js";
import * as frame from "../lib/frame.js";
import { t, zone } from "../lib/i18n.js";
import { login } from "../lib/login.js";
import { session } from "../lib/session.js";
import * as audit from "./audit.js";
import { forget } from "./form.js";
import * as letters from "./letters.js";
import * as orders from "./orders.js";
import { head } from "./parts.js";
import * as reconcile from "./reconcile.js";
import * as rush from "./rush.js";
import * as sale from "./sale.js";
import * as sales from "./sales.js";
import texts from "./texts.js";

let settled = false; // whether there is a session is known
let shown = ""; // the path

// guarded shows a page to admins, and to everybody else what he can do about it. The server decides: this spares people
// a page full of refusals.
const guarded = (title, mount) => (root, ...args) => {
  if (location.pathname !== shown) forget();
  shown = location.pathname;
  const user = session.user();
  if (user?.role === "admin") return mount(root, ...args);
  const said = h("p", { class: "empty", "data-gate": true });
  const enter = h("button", { type: "button", class: "primary", "data-do": "enter", onclick: () => login() }, t("login.title"));
  text(said, user ? t("gate.buyer") : settled ? t("gate.guest") : t("loading"));
  show(enter, settled && !user);
  root.replaceChildren(head(t(title)), said, h("div", { class: "center" }, enter,
    user ? h("a", { href: "/", class: "button primary" }, t("gate.shop")) : null));
  return () => {};
};

const page = (path, title, mount, nav) => ({ path, title, nav, mount: guarded(title, mount) });

frame.start({
  texts,
  pages: [
    page(/^\/console$/, "sales.title", sales.list, "/console"),
    page(/^\/console\/new$/, "sales.new", sales.make, "/console"),
    page(/^\/console\/sales\/(\d+)$/, "sale.title", sale.mount, "/console"),
    page(/^\/console\/orders$/, "orders.title", orders.list, "/console/orders"),
    page(/^\/console\/orders\/(\d+)$/, "orders.one", orders.one, "/console/orders"),
    page(/^\/console\/letters$/, "letters.title", letters.mount, "/console/letters"),
    page(/^\/console\/reconcile$/, "reconcile.title", reconcile.mount, "/console/reconcile"),
    page(/^\/console\/audit$/, "audit.title", audit.mount, "/console/audit"),
    page(/^\/console\/rush$/, "rush.title", rush.mount, "/console/rush"),
  ],
  links: () => [
    ["/console", "sales.nav"], ["/console/orders", "orders.nav"], ["/console/letters", "letters.nav"],
    ["/console/reconcile", "reconcile.nav"], ["/console/audit", "audit.nav"], ["/console/rush", "rush.nav"], ["/", "gate.shop"],
  ],
  foot: () => t("foot", { zone: zone() }),
});

session.on(frame.again);
session.start().finally(() => {
  settled = true;
  if (!session.user()) frame.again();
});
