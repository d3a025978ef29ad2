// The page of the sales.

import * as clock from "../lib/clock.js";
import { h, newID, show, text } from "../lib/dom.js";
import { finder } from "../lib/find.js";
import { moment, t } from "../lib/i18n.js";
import { card, keepTime } from "./card.js";
import * as sales from "./sales.js";
import * as shops from "./shops.js";

// mount shows the page in root and returns the function that removes it.
export function mount(root) {
  const cards = new Map();
  const grid = h("ul", { class: "grid" });
  const empty = h("p", { class: "empty", role: "status" });
  const banner = h("p", { class: "banner toast", role: "status" });
  const more = h("button", { type: "button", class: "quiet", "data-do": "more", onclick: () => sales.more() }, t("more"));
  const past = h("button", { type: "button", class: "quiet", "data-do": "past", onclick: () => sales.readPast() }, t("store.past"));
  const searchID = newID("search");
  const search = h("input", { id: searchID, type: "search", name: "q", placeholder: t("store.searchFor"), oninput: onSearch });
  search.value = new URLSearchParams(location.search).get("q") ?? "";
  root.replaceChildren(
    h("header", { class: "lead" },
      h("h1", { tabindex: -1 }, t("store.title")),
      h("p", {}, t("store.lead"))),
    h("div", { class: "search", role: "search" }, h("label", { for: searchID, class: "sr" }, t("store.search")), search),
    banner, empty, grid, h("div", { class: "center" }, more, past));

  // onSearch keeps the words in the address, so that a search can be shared.
  function onSearch() {
    history.replaceState(history.state, "", search.value ? `/?${new URLSearchParams({ q: search.value })}` : "/");
    update(clock.now());
  }

  // matches reports whether a sale has all words of the search in its texts, its shop or the time of its start.
  function matches(v, contains) {
    const of = shops.shop(v.shop_id);
    return contains([v.title, v.sub_title, of?.name, of?.area, of?.address, moment(v.begin_at)].join(" "));
  }

  function update(now) {
    const all = sales.all();
    text(banner, sales.error ? t(sales.error.code === "network" ? "store.offline" : "store.unavailable") : "");
    show(banner, sales.error);
    show(more, sales.hasMore());
    show(past, sales.loaded && !sales.hasPast());
    for (const v of all) if (!cards.has(v.id)) add(v, now);
    for (const [id, c] of cards) {
      if (sales.sale(id)) continue;
      c.element.remove();
      cards.delete(id);
    }
    const contains = search.value.trim() ? finder(search.value) : () => true;
    let found = 0;
    for (const [id, c] of cards) {
      const visible = matches(sales.sale(id), contains);
      show(c.element, visible);
      if (visible) found++;
      c.update(now);
    }
    text(empty, found > 0 || (all.length === 0 && sales.error) ? "" : !sales.loaded ? t("loading") : all.length > 0 ? t("store.noMatch") : t("store.empty"));
    show(empty, empty.textContent);
  }

  // add inserts a card in order. It keeps its place while the page is open, so that a tap never hits a card that has moved.
  function add(v, now) {
    const c = card(v.id);
    c.rank = rank(v, now);
    const next = [...cards.values()].filter((other) => before(c.rank, other.rank))
      .reduce((first, other) => (!first || before(other.rank, first.rank) ? other : first), null);
    grid.insertBefore(c.element, next?.element ?? null);
    cards.set(v.id, c);
  }

  shops.load();
  const ends = [sales.watch(), keepTime(update)];
  return () => {
    for (const end of ends) end();
  };
}

// rank returns the sort key of a card: open sales first, then upcoming, sold out and ended ones, each group by time.
function rank(v, now) {
  const state = sales.stateOf(v, now);
  const at = Date.parse(state === "upcoming" ? v.begin_at : v.end_at);
  return [["on_sale", "upcoming", "sold_out", "ended"].indexOf(state), state === "ended" ? -at : at, -Number(v.id)];
}

function before(a, b) {
  const i = a.findIndex((n, at) => n !== b[at]);
  return i >= 0 && a[i] < b[i];
}
