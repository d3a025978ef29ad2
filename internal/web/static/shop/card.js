// The card of a sale, with its button.

import { announce } from "../lib/announce.js";
import * as clock from "../lib/clock.js";
import { confirm } from "../lib/confirm.js";
import { attr, h, newID, show, text } from "../lib/dom.js";
import { errorIn } from "../lib/explain.js";
import { icon } from "../lib/icon.js";
import { discount, hour, languageOf, left, money, number, percent, t } from "../lib/i18n.js";
import { singleFlight } from "../lib/intent.js";
import { login } from "../lib/login.js";
import { session } from "../lib/session.js";
import { action } from "./action.js";
import * as buy from "./buy.js";
import * as human from "./human.js";
import * as mine from "./mine.js";
import { reminders } from "./remind.js";
import * as rooms from "./rooms.js";
import * as sales from "./sales.js";
import * as shops from "./shops.js";
import { message } from "./turn.js";

const HOUR = 3_600_000;
const TINTS = 4; // of placeholders, in shop.css

// The icons of results.
const signs = { won: "check", waiting: "clock", turn: "bell", lost: "cross", warn: "alert" };

// keepTime calls update(now, idle) now, every second, when a sale starts or ends, and when anything that cards show changes.
// `idle` means that only time has passed. It returns the function that stops that.
export function keepTime(update) {
  let timer = 0;
  function tick(idle) {
    clearTimeout(timer);
    const now = clock.now();
    update(now, idle);
    let next = 1000 - (now % 1000);
    for (const v of sales.all()) {
      for (const time of [v.begin_at, v.end_at, v.entry.opens_at].map(Date.parse)) {
        if (time > now) next = Math.min(next, time - now);
      }
    }
    timer = setTimeout(tick, next + 1, true);
  }
  const ends = [sales, shops, buy, human, mine, rooms].map((changed) => changed.onChange(() => tick(false)));
  ends.push(session.on(() => tick(false)));
  tick(false);
  return () => {
    clearTimeout(timer);
    for (const end of ends) end();
  };
}

// onScreen has the cards that are less than a screen away. Others are not updated each second: pages with dozens of cards
// stay open for hours.
const onScreen = new WeakSet();
const observer = new IntersectionObserver((entries) => {
  for (const e of entries) onScreen[e.isIntersecting ? "add" : "delete"](e.target);
}, { rootMargin: "100%" });

// card returns the card of a sale: {element, update}; update(now, idle) renders the current state. In a list the title is a link
// that covers the card. `alone` means that the page shows this sale only, with its title and its terms elsewhere.
export function card(id, alone = false) {
  const titleID = newID("sale");
  const noteID = newID("note");
  const chip = h("span", { class: "chip" });
  const name = alone ? h("span", {}) : h("a", { href: `/sales/${id}` });
  const title = h("h2", { id: titleID, class: alone && "sr" }, name);
  const image = h("img", { alt: "", class: "image", loading: "lazy", hidden: true, onerror: () => showImage(false) }); // the placeholder is behind it
  const cover = h("div", { class: "cover", "data-empty": true }, h("span", { "aria-hidden": "true" }), image, chip);
  const of = h("span", {});
  const sub = h("span", {});
  const price = h("strong", {});
  const worth = h("s", {});
  const insteadOf = h("span", { class: "sr" }, t("store.insteadOf"));
  const off = h("span", { class: "off" });
  const stockBar = h("progress", { "aria-label": t("store.stock") });
  const stockText = h("span", {});
  const stock = h("div", { class: "stock" }, stockBar, stockText);
  const timeLabel = h("span", { class: "label" });
  const time = h("span", { class: "time", role: "timer", "aria-live": "off" });
  const times = h("div", { class: "clock" }, timeLabel, " ", time);
  const label = h("span", { id: newID("buy") });
  const button = h("button", {
    type: "button", class: "primary buy", "aria-describedby": noteID, "aria-labelledby": `${label.id} ${titleID}`, onclick: onPress,
  }, label);
  const link = h("a", { "aria-describedby": noteID });
  const sign = h("span", { class: "sign" });
  const headline = h("strong", {});
  const figure = h("span", { class: "figure" });
  const part = h("progress", { "aria-hidden": "true" }); // the figure says the same
  const note = h("p", { id: noteID, class: "note" });
  const result = h("div", { class: "result" }, sign, h("div", {}, headline, figure, part, note));
  const another = h("button", { type: "button", class: "link", "data-do": "another", "aria-describedby": titleID, onclick: () => buy.press(id) });
  const limit = h("p", { class: "limit" });
  const ref = h("p", { class: "reference" });
  const word = h("p", { class: "banner", "data-message": true });
  const error = h("p", { class: "error", role: "alert" });
  const leave = h("button", { type: "button", class: "link", "data-do": "leave", "aria-describedby": titleID }, t("room.leave"));
  leave.addEventListener("click", singleFlight(leave, errorIn(error), async () => {
    if (!(await confirm(t("room.sure"), t("room.leave")))) return;
    await rooms.leave(id);
    button.focus();
  }));
  const remind = alone ? reminders(id) : null;
  const act = h("div", { class: "act" }, word, result, another, limit, ref, leave, error, remind?.element);
  const element = h(alone ? "article" : "li", { class: "sale", "data-voucher": id, "aria-labelledby": titleID },
    cover,
    h("div", { class: "what" }, title, h("p", { class: "sub" }, of, " ", sub)),
    h("div", { class: "meter" }, stock, alone ? null : times),
    h("div", { class: "bar" }, h("div", { class: "price" }, price, " ", insteadOf, worth, " ", off), alone ? times : null, button, link),
    act);
  observer.observe(element);
  let shown = {};
  let counted = null;
  let reserved = false;
  let timed = null;
  let was = null;
  let said = null;
  let turned = null;

  function onPress() {
    if (button.getAttribute("aria-disabled") === "true") return;
    if (button.dataset.do === "ready") login();
    else buy.press(id);
  }

  function update(now, idle) {
    const v = sales.sale(id);
    if (!v) return;
    const state = sales.stateOf(v, now);
    if (idle && state === element.dataset.state && !onScreen.has(element)) return;
    const at = shops.shop(v.shop_id)?.name ?? "";
    if (v !== shown.v || at !== shown.at) showFacts(v, at);
    const a = action(v, state, alone);
    if (v !== counted || state !== element.dataset.state || Boolean(a.reserved) !== reserved) showStock(v, state, a);
    counted = v;
    reserved = Boolean(a.reserved);
    attr(element, "data-state", state);
    text(chip, t(`state.${state}`));
    showTime(v, state, now, a.until);
    showAction(a);
    showResult(a);
    if (alone && !a.href && !a.busy && !v.preview) human.prepare(v, state, now);
    remind?.update(v, state);
    if (was !== null && was !== a.say) announce(a.say && `${v.title}: ${a.say}`);
    was = a.say;
    const from = message(v, state);
    text(word, from);
    show(word, from);
    if (said !== null && said !== from) announce(from && `${v.title}: ${from}`);
    said = from;
    show(leave, a.leave);
    if (!a.leave) text(error, "");
    // The turn takes the focus unless the visitor is busy elsewhere.
    const active = document.activeElement;
    if (a.mine && turned === false && (!active || active === document.body || element.contains(active))) button.focus();
    turned = Boolean(a.mine);
  }

  // showFacts shows what changes with the sale only. It is called when the sale has been read, and not every second.
  function showFacts(v, at) {
    if (v.image_url !== shown.v?.image_url) {
      attr(image, "src", v.image_url);
      showImage(Boolean(v.image_url));
    }
    shown = { v, at };
    for (const [el, words] of [[name, v.title], [sub, v.sub_title], [of, at]]) {
      text(el, words);
      attr(el, "lang", languageOf(words));
      show(el, words);
    }
    const [initial = "·"] = at || v.title;
    text(cover.firstChild, initial);
    attr(cover, "data-tint", initial.codePointAt(0) % TINTS);
    text(price, money(v.pay_value, v.currency));
    const saves = v.actual_value > v.pay_value;
    text(worth, money(v.actual_value, v.currency));
    show(worth, saves);
    show(insteadOf, saves);
    text(off, discount(v.pay_value, v.actual_value));
    show(off, off.textContent);
  }

  function showImage(visible) {
    show(image, visible);
    attr(cover, "data-empty", !visible);
  }

  // showStock shows which share is claimed. Neither the first unit nor the last one is rounded away.
  function showStock(v, state, a) {
    const units = Math.max(v.initial_stock + (v.added_stock ?? 0), v.stock, 1);
    const claimed = units - v.stock;
    const share = Math.min(Math.max(claimed / units, claimed > 0 ? 0.01 : 0), v.stock > 0 ? 0.99 : 1);
    show(stock, state !== "ended");
    show(stockBar, state !== "upcoming");
    attr(stockBar, "max", units);
    attr(stockBar, "value", claimed);
    const words = { claimed: percent(share), left: number(v.stock), n: number(v.stock) };
    const name = a.reserved ? "reserved" : alone ? "claimedLeft" : "claimed";
    text(stockText, t(`store.${state === "upcoming" ? "units" : name}`, words));
  }

  // showTime shows the time until the start or the end, or `until` another one.
  function showTime(v, state, now, other) {
    const until = other?.at ?? Date.parse(state === "upcoming" ? v.begin_at : v.end_at);
    const far = until - now > 48 * HOUR ? "At" : "";
    const kind = other?.label ?? state;
    if (timed === kind && !onScreen.has(element)) return;
    timed = kind;
    const over = state === "ended" && !other;
    text(timeLabel, other?.label ?? t(over ? "time.ended" : `time.${state === "upcoming" ? "begins" : "ends"}${far}`));
    if (over) text(time, until <= now ? hour(until, now) : ""); // the sale was ended early
    else text(time, far ? hour(until, now) : left(until - now, Boolean(other)));
  }

  function showAction(a) {
    const focused = document.activeElement === button || document.activeElement === link;
    text(label, a.label);
    attr(button, "aria-disabled", a.disabled ? "true" : null);
    attr(button, "data-busy", a.busy);
    attr(button, "data-do", a.ready && "ready");
    text(another, a.another ?? "");
    show(another, a.another);
    text(limit, a.limit ?? "");
    show(limit, a.limit);
    show(button, !a.href);
    show(link, a.href);
    if (a.href) {
      attr(link, "href", a.href);
      attr(link, "class", `button ${a.calm ? "quiet" : "primary"} buy`);
      text(link, a.label);
    }
    if (focused && a.href && document.activeElement !== link) link.focus();
    if (focused && !a.href && document.activeElement !== button) button.focus();
    text(ref, a.reference ?? "");
    show(ref, a.reference);
  }

  // showResult shows what has come of the visitor's press, or a plain note.
  function showResult(a) {
    if (result.dataset.kind !== a.kind || !sign.firstChild) sign.replaceChildren(...(a.kind ? [icon(signs[a.kind])] : []));
    attr(result, "data-kind", a.kind);
    attr(act, "data-result", Boolean(a.kind));
    for (const [el, words] of [[headline, a.head], [figure, a.figure], [note, a.idle && !alone ? "" : a.note]]) {
      text(el, words ?? "");
      show(el, words);
    }
    attr(part, "value", a.part?.[0]);
    attr(part, "max", a.part?.[1]);
    show(part, a.part);
    show(result, a.kind || note.textContent);
  }

  return { element, update };
}
