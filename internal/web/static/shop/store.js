// The page of the sales.

import * as clock from "../lib/clock.js";
import { attr, h, newID, show, text } from "../lib/dom.js";
import { finder } from "../lib/find.js";
import { hour, t } from "../lib/i18n.js";
import { moreButton } from "../lib/more.js";
import { card, keepTime } from "./card.js";
import * as sales from "./sales.js";
import * as shops from "./shops.js";

const DAY = 24 * 3_600_000;
const NOW = "now"; // the slot of what has begun

// mount shows the page in root and returns the function that removes it.
export function mount(root) {
  const cards = new Map();
  const grid = h("ul", { class: "grid" });
  const bones = h("div", { class: "grid bones", "aria-hidden": "true" }, ...Array.from({ length: 6 }, () => h("div", { class: "bone" })));
  const empty = h("p", { class: "empty", role: "status" });
  const banner = h("p", { class: "banner toast", role: "status" });
  const more = moreButton("more", t("more"), sales.more);
  const past = moreButton("past", t("store.past"), sales.readPast);
  const slots = h("div", { class: "slots", role: "group", "aria-label": t("store.slots") });
  const searchID = newID("search");
  const search = h("input", { id: searchID, type: "search", name: "q", placeholder: t("store.searchFor"), oninput: onSearch });
  search.value = new URLSearchParams(location.search).get("q") ?? "";
  let chosen = ""; // the slot that is shown; "": all
  root.replaceChildren(
    h("header", { class: "lead store" },
      h("h1", { tabindex: -1 }, t("store.title")),
      h("p", {}, t("store.lead")),
      h("div", { class: "search", role: "search" }, h("label", { for: searchID, class: "sr" }, t("store.search")), search)),
    slots, banner, empty, grid, bones, h("div", { class: "center" }, more.element, past.element));

  // onSearch keeps the words in the address, so that a search can be shared. Safari throws after a hundred changes of it in 30 s.
  function onSearch() {
    update(clock.now());
    history.replaceState(history.state, "", search.value ? `/?${new URLSearchParams({ q: search.value })}` : "/");
  }

  // matches reports whether a sale has all words of the search in its texts, its shop or the time of its start, as cards show
  // it: with the year, every sale of 2026 would contain the words 20 and 26.
  function matches(v, contains, now) {
    const of = shops.shop(v.shop_id);
    return contains([v.title, v.sub_title, of?.name, of?.area, of?.address, hour(v.begin_at, now)].join(" "));
  }

  // slotOf returns the slot of a sale: its start if that is ahead, within a day. The chosen slot keeps its sales when they
  // begin, so that no card moves at that moment. "" if it has none.
  function slotOf(v, now) {
    const state = sales.stateOf(v, now);
    if (state === "ended") return "";
    if (v.begin_at === chosen) return chosen;
    if (state !== "upcoming") return NOW;
    return Date.parse(v.begin_at) - now < DAY ? v.begin_at : "";
  }

  // showSlots shows a button for each slot of the day, if there are several.
  function showSlots(all, now) {
    const starts = [...new Set(all.map((v) => slotOf(v, now)))].filter((slot) => slot && slot !== NOW).sort();
    const found = all.some((v) => slotOf(v, now) === NOW) ? [NOW, ...starts] : starts;
    if (chosen && !found.includes(chosen)) chosen = "";
    show(slots, found.length > 1 || !sales.loaded); // most shops have several, and then nothing moves
    const names = ["", ...found];
    if (slots.dataset.names !== names.join()) {
      slots.dataset.names = names.join();
      const held = slots.contains(document.activeElement) ? document.activeElement.dataset.slot : null;
      slots.replaceChildren(...names.map((slot) => h("button", {
        type: "button", class: "quiet", "data-slot": slot, onclick: () => { chosen = slot; update(clock.now()); },
      })));
      if (held !== null) slots.children[Math.max(names.indexOf(held), 0)].focus();
    }
    names.forEach((slot, i) => {
      const words = slot === "" ? t("store.everything") : slot === NOW ? t("store.now") : hour(slot, now);
      text(slots.children[i], words);
      attr(slots.children[i], "aria-pressed", String(slot === chosen));
    });
  }

  function update(now, idle = false) {
    const all = sales.loaded ? sales.all() : []; // a card that the page of a sale has read would move when the others come
    text(banner, sales.error ? t(sales.error.code === "network" ? "store.offline" : "store.unavailable") : "");
    show(banner, sales.error);
    const known = new Set(cards.keys());
    for (const v of all) if (!known.has(v.id)) add(v, now);
    for (const [id, c] of cards) {
      if (sales.sale(id)) continue;
      c.element.remove();
      cards.delete(id);
    }
    showSlots(all, now);
    const contains = search.value.trim() ? finder(search.value) : null;
    let found = 0;
    for (const [id, c] of cards) {
      const v = sales.sale(id);
      const visible = (!contains || matches(v, contains, now)) && (chosen === "" || slotOf(v, now) === chosen);
      show(c.element, visible);
      if (visible) found++;
      c.update(now, idle);
    }
    const added = () => [...grid.children].find((li) => !li.hidden && !known.has(li.dataset.voucher));
    more.update(sales.hasMore(), added);
    past.update(sales.loaded && !sales.hasPast(), added);
    const loading = !sales.loaded;
    show(bones, loading);
    attr(empty, "class", loading ? "sr" : "empty");
    text(empty, found > 0 || (all.length === 0 && sales.error) ? "" : loading ? t("loading") : all.length > 0 ? t("store.noMatch") : t("store.empty"));
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
