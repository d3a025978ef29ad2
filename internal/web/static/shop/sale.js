// The page of one sale, which can be shared: /sales/{id}.

import { attr, h, newID, show, text } from "../lib/dom.js";
import { showTitle } from "../lib/frame.js";
import { duration, languageOf, stamp, t, zone } from "../lib/i18n.js";
import { icon } from "../lib/icon.js";
import { missing } from "../lib/missing.js";
import { card, keepTime } from "./card.js";
import * as sales from "./sales.js";
import * as shops from "./shops.js";

let shown = ""; // the id of the sale on the page

// title returns the title of the page.
export const title = () => sales.sale(shown)?.title ?? t(sales.missing === shown ? "missing.title" : "loading");

// mount shows the page of a sale in root and returns the function that removes it.
export function mount(root, id) {
  shown = id;
  const heading = h("h1", { tabindex: -1 });
  const banner = h("p", { class: "banner toast", role: "status" });
  const waiting = h("p", { class: "sr", role: "status" }, t("loading"));
  const body = h("div", { class: "one" });
  const bones = h("div", { class: "one bones", "aria-hidden": "true" }, h("div", { class: "bone" }));
  const c = card(id, true);
  let gone = false;
  const facts = h("dl", { class: "facts-list" });
  const rules = h("p", { class: "terms" });
  const rulesTitle = h("h2", {}, t("sale.terms"));
  const shared = h("p", { class: "note", role: "status" });
  const share = h("button", { type: "button", class: "quiet", "data-do": "share", onclick: onShare }, icon("share"), t("sale.share"));
  const stepsID = newID("steps");
  const steps = h("div", { class: "steps" },
    h("h2", { id: stepsID }, t("sale.after")),
    h("ol", { "aria-labelledby": stepsID }, ...["pay", "code", "shop"].map((step) => h("li", {}, t(`sale.after.${step}`)))));
  body.append(c.element, h("section", { class: "details" },
    facts, rulesTitle, rules, steps,
    h("div", { class: "share" }, share, shared)));
  const all = h("a", { href: "/", class: "link" }, icon("back"), t("store.all"));
  root.replaceChildren(h("header", { class: "lead" }, all, heading), banner, waiting, body, bones);

  async function onShare() {
    const link = new URL(`/sales/${id}`, location.href).href;
    try {
      if (navigator.share) await navigator.share({ title: title(), url: link });
      else {
        await navigator.clipboard.writeText(link);
        text(shared, t("sale.copied"));
      }
    } catch {
      text(shared, link); // the browser has neither, or the visitor has cancelled: the link can be copied by hand
    }
  }

  // giveUp shows the page for addresses that do not exist.
  function giveUp() {
    if (gone) return;
    gone = true;
    stopReading();
    attr(root, "data-bar", null);
    missing("/", "store.all")(root);
    showTitle();
  }

  function update(now, idle) {
    if (sales.missing === id) return giveUp();
    const v = sales.sale(id);
    text(banner, sales.error ? t(sales.error.code === "network" ? "store.offline" : "store.unavailable") : "");
    show(banner, sales.error);
    const loading = !v && !sales.error;
    show(waiting, loading);
    show(bones, loading);
    show(body, v);
    text(heading, title());
    if (!v) return;
    heading.lang = languageOf(v.title);
    showTitle();
    c.update(now, idle);
    text(rules, v.rules);
    rules.lang = languageOf(v.rules);
    show(rules, v.rules);
    show(rulesTitle, v.rules);
    show(steps, sales.stateOf(v, now) !== "ended");
    showFacts(v);
  }

  let address = "";

  function showFacts(v) {
    const of = shops.shop(v.shop_id);
    const all = [
      ["shop", of?.name], ["address", shops.addressOf(of)], ["hours", of?.open_hours],
      ["begins", stamp(v.begin_at)], ["ends", stamp(v.end_at)], ["zone", zone(new Date(v.begin_at))],
      ["validFrom", v.valid_from && stamp(v.valid_from)], ["validUntil", v.valid_until && stamp(v.valid_until)],
      ["limit", t("sale.limitOf", { n: v.limit_per_user })],
      ["payWithin", v.pay_timeout ? duration(v.pay_timeout) : ""],
    ].filter(([, value]) => value);
    const names = all.map(([name]) => name).join(" ");
    if (facts.dataset.names !== names) {
      facts.dataset.names = names;
      facts.replaceChildren(...all.map(([name]) => h("div", {}, h("dt", {}, t(`sale.${name}`)), h("dd", {}))));
    }
    all.forEach(([name, value], i) => {
      const dd = facts.children[i].lastChild;
      if (name !== "address") text(dd, value);
      else if (address !== value || !dd.firstChild) dd.replaceChildren(shops.mapLink((address = value)));
    });
  }

  attr(root, "data-bar", true);
  const stopReading = sales.watch(id);
  const stopTime = keepTime(update);
  return () => {
    attr(root, "data-bar", null);
    stopReading();
    stopTime();
  };
}
