// The page of one sale, which can be shared: /sales/{id}.

import { h, newID, show, text } from "../lib/dom.js";
import { showTitle } from "../lib/frame.js";
import { languageOf, stamp, t, zone } from "../lib/i18n.js";
import { card, keepTime } from "./card.js";
import * as sales from "./sales.js";
import * as shops from "./shops.js";

let shown = ""; // the id of the sale on the page

// title returns the title of the page.
export const title = () => sales.sale(shown)?.title ?? t("store.title");

// mount shows the page of a sale in root and returns the function that removes it.
export function mount(root, id) {
  shown = id;
  const heading = h("h1", { tabindex: -1 });
  const banner = h("p", { class: "banner toast", role: "status" });
  const empty = h("p", { class: "empty", role: "status" });
  const body = h("div", { class: "one" });
  const c = card(id, true);
  const facts = h("dl", { class: "facts-list" });
  const rules = h("p", { class: "terms" });
  const rulesTitle = h("h2", {}, t("sale.terms"));
  const shared = h("p", { class: "note", role: "status" });
  const share = h("button", { type: "button", class: "quiet", "data-do": "share", onclick: onShare }, t("sale.share"));
  const steps = newID("steps");
  body.append(c.element, h("section", { class: "details" },
    facts, rulesTitle, rules,
    h("h2", { id: steps }, t("sale.after")),
    h("ol", { "aria-labelledby": steps }, ...["pay", "code", "shop"].map((step) => h("li", {}, t(`sale.after.${step}`)))),
    h("div", { class: "share" }, share, shared)));
  root.replaceChildren(h("header", { class: "lead" }, heading, h("a", { href: "/", class: "link" }, t("store.all"))), banner, empty, body);

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

  function update(now) {
    const v = sales.sale(id);
    text(banner, sales.error ? t(sales.error.code === "network" ? "store.offline" : "store.unavailable") : "");
    show(banner, sales.error);
    const missing = sales.missing === id;
    text(empty, missing ? t("sale.missing") : !v && !sales.error ? t("loading") : "");
    show(empty, empty.textContent);
    show(body, v);
    text(heading, v?.title ?? t("store.title"));
    if (!v) return;
    heading.lang = languageOf(v.title);
    if (document.title.indexOf(v.title) < 0) showTitle();
    c.update(now);
    text(rules, v.rules);
    rules.lang = languageOf(v.rules);
    show(rules, v.rules);
    show(rulesTitle, v.rules);
    showFacts(v);
  }

  function showFacts(v) {
    const of = shops.shop(v.shop_id);
    const all = [
      ["shop", of?.name], ["address", [of?.area, of?.address].filter(Boolean).join(" ")], ["hours", of?.open_hours],
      ["begins", stamp(v.begin_at)], ["ends", stamp(v.end_at)], ["zone", zone(new Date(v.begin_at))],
      ["limit", t("sale.limitOf", { n: v.limit_per_user })],
      ["payWithin", v.pay_timeout ? t("sale.minutes", { n: Math.ceil(v.pay_timeout / 60) }) : ""],
    ].filter(([, value]) => value);
    if (facts.children.length !== all.length) {
      facts.replaceChildren(...all.map(([name]) => h("div", {}, h("dt", {}, t(`sale.${name}`)), h("dd", {}))));
    }
    all.forEach(([, value], i) => text(facts.children[i].lastChild, value));
  }

  const ends = [sales.watch(id), keepTime(update)];
  return () => {
    for (const end of ends) end();
  };
}
