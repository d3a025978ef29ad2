// The card of a sale, with its button.

import { announce } from "../lib/announce.js";
import * as clock from "../lib/clock.js";
import { confirm } from "../lib/confirm.js";
import { attr, h, newID, show, text } from "../lib/dom.js";
import { explain, reference } from "../lib/explain.js";
import { language, languageOf, left, moment, money, number, t } from "../lib/i18n.js";
import { singleFlight } from "../lib/intent.js";
import { login } from "../lib/login.js";
import { session } from "../lib/session.js";
import * as buy from "./buy.js";
import * as human from "./human.js";
import { queueNote } from "./queue.js";
import * as mine from "./mine.js";
import * as rooms from "./rooms.js";
import * as sales from "./sales.js";
import * as shops from "./shops.js";
import { message, turn } from "./turn.js";

const HOUR = 3_600_000;
const REFUSAL_SHOWN = 8_000; // ms

// keepTime calls update(now) now, every second, when a sale starts or ends, and when anything that cards show changes. It
// returns the function that stops that.
export function keepTime(update) {
  let timer = 0;
  function tick() {
    clearTimeout(timer);
    const now = clock.now();
    update(now);
    let next = 1000 - (now % 1000);
    for (const v of sales.all()) {
      for (const time of [v.begin_at, v.end_at, v.entry.opens_at].map(Date.parse)) {
        if (time > now) next = Math.min(next, time - now);
      }
    }
    timer = setTimeout(tick, next + 1);
  }
  const ends = [sales, shops, buy, human, mine, rooms].map((changed) => changed.onChange(tick));
  ends.push(session.on(tick));
  tick();
  return () => {
    clearTimeout(timer);
    for (const end of ends) end();
  };
}

// onScreen has the cards that are less than a screen away. The times of others are not updated each second: pages with
// dozens of cards stay open for hours.
const onScreen = new WeakSet();
const observer = new IntersectionObserver((entries) => {
  for (const e of entries) onScreen[e.isIntersecting ? "add" : "delete"](e.target);
}, { rootMargin: "100%" });

// card returns the card of a sale: {element, update}; update(now) renders the current state. `alone` means that the page
// shows this sale only, with its title and its terms elsewhere.
export function card(id, alone = false) {
  const titleID = newID("sale");
  const noteID = newID("note");
  const chip = h("span", { class: "chip" });
  const name = h("a", { href: `/sales/${id}` });
  const title = h("h2", { id: titleID, class: alone && "sr" }, name);
  const image = h("img", { alt: "", loading: "lazy", class: "image" });
  const of = h("p", { class: "shop" });
  const sub = h("p", { class: "sub" });
  const price = h("strong", {});
  const worth = h("s", {});
  const insteadOf = h("span", { class: "sr" }, t("store.insteadOf"));
  const off = h("span", { class: "off" });
  const stockBar = h("progress", { "aria-label": t("store.stock") });
  const stockText = h("span", {});
  const timeLabel = h("span", { class: "label" });
  const time = h("span", { class: "time", role: "timer", "aria-live": "off" });
  const rules = h("p", { class: "rules" });
  const label = h("span", { id: newID("buy") });
  const button = h("button", {
    type: "button", class: "primary buy", "aria-describedby": noteID, "aria-labelledby": `${label.id} ${titleID}`, onclick: onPress,
  }, label);
  const link = h("a", { "aria-describedby": noteID });
  const another = h("button", { type: "button", class: "link", "data-do": "another", "aria-describedby": titleID, onclick: () => buy.press(id) });
  const limit = h("p", { class: "limit" });
  const note = h("p", { id: noteID, class: "note" });
  const ref = h("p", { class: "reference" });
  const word = h("p", { class: "banner", "data-message": true });
  const error = h("p", { class: "error", role: "alert" });
  const leave = h("button", { type: "button", class: "link", "data-do": "leave", "aria-describedby": titleID }, t("room.leave"));
  leave.addEventListener("click", singleFlight(leave, { clear: () => text(error, ""), show: (problem) => text(error, explain(problem)) }, async () => {
    if (!(await confirm(t("room.sure"), t("room.leave")))) return;
    await rooms.leave(id);
    button.focus();
  }));
  const element = h(alone ? "article" : "li", { class: "sale", "data-voucher": id, "aria-labelledby": titleID },
    h("div", { class: "what" }, image, h("div", { class: "head" }, title, alone ? of : null, chip), sub, alone ? null : of, rules),
    h("div", { class: "price" }, h("span", {}, price, " ", insteadOf, worth), off),
    h("div", { class: "stock" }, stockBar, stockText),
    h("div", { class: "clock" }, timeLabel, time),
    h("div", { class: "act" }, word, button, link, note, another, limit, ref, leave, error));
  observer.observe(element);
  let shown = {};
  let timed = null;
  let was = null;
  let said = null;
  let turned = null;

  function onPress() {
    if (button.getAttribute("aria-disabled") === "true") return;
    if (button.dataset.do === "ready") login();
    else buy.press(id);
  }

  function update(now) {
    const v = sales.sale(id);
    if (!v) return;
    const at = shops.shop(v.shop_id)?.name ?? "";
    if (v !== shown.v || at !== shown.at) showFacts(v, at);
    const state = sales.stateOf(v, now);
    attr(element, "data-state", state);
    text(chip, t(`state.${state}`));
    showTime(v, state, now);
    const a = action(v, state);
    showAction(a);
    if (!a.href && !a.busy && !v.preview) human.prepare(v, state, now);
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
    shown = { v, at };
    for (const [el, words] of [[name, v.title], [sub, v.sub_title], [rules, alone ? "" : v.rules]]) {
      text(el, words);
      attr(el, "lang", languageOf(words));
      show(el, words);
    }
    attr(image, "src", v.image_url);
    show(image, v.image_url);
    text(of, at);
    attr(of, "lang", languageOf(at));
    show(of, at);
    text(price, money(v.pay_value, v.currency));
    const saves = v.actual_value > v.pay_value;
    text(worth, money(v.actual_value, v.currency));
    show(worth, saves);
    show(insteadOf, saves);
    const percent = saves ? Math.round(100 - (100 * v.pay_value) / v.actual_value) : 0;
    text(off, t("store.off", { off: language() === "zh" ? number((100 - percent) / 10) : percent })); // 8 折 is −20%
    show(off, percent > 0 && percent < 100);
    const units = Math.max(v.initial_stock + (v.added_stock ?? 0), v.stock);
    attr(stockBar, "max", Math.max(1, units));
    attr(stockBar, "value", v.stock);
    text(stockText, t("store.left", { left: number(v.stock), all: number(units) }));
  }

  function showTime(v, state, now) {
    const until = Date.parse(state === "upcoming" ? v.begin_at : v.end_at);
    const far = until - now > 48 * HOUR ? "At" : "";
    if (timed === state && !onScreen.has(element)) return;
    timed = state;
    text(timeLabel, t(state === "ended" ? "time.ended" : `time.${state === "upcoming" ? "begins" : "ends"}${far}`));
    text(time, state === "ended" || far ? moment(until) : left(until - now));
    attr(element, "data-soon", state === "upcoming" && until - now < 60_000);
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
    text(note, a.note ?? "");
    text(ref, a.reference ?? "");
    show(ref, a.reference);
  }

  return { element, update };
}

// action returns the label and function of a sale's button and the note below it. `say` is the text for screen readers:
// it changes with events, not with every second.
function action(v, state) {
  if (v.preview) return { label: t(state === "on_sale" ? "buy.now" : `button.${state}`), disabled: true, note: t("sale.preview"), say: "" };
  const p = buy.purchase(v.id);
  const held = mine.holding(v.id);
  const order = held[0] ?? (p.order && mine.order(p.order));
  switch (p.is) {
    case "buying":
      if (p.joining) return { label: t("room.asking"), disabled: true, busy: true, note: p.proving ? t("proof.working") : "", say: "" };
      return { label: t("buy.buying"), disabled: true, busy: true, note: t(p.proving ? "proof.working" : "buy.holdOn"), say: t("buy.buying") };
    case "waiting": {
      const why = t(`waiting.${p.why.code}`);
      return {
        label: t("buy.waiting"), disabled: true, busy: true, say: why,
        note: `${why} ${t("buy.retryIn", { seconds: Math.max(1, Math.ceil((p.at - performance.now()) / 1000)) })}`,
      };
    }
    case "queued":
      return { label: t("buy.queued"), disabled: true, busy: true, note: queueNote(order), say: t("buy.queued") };
  }
  const most = v.limit_per_user ?? 1;
  const limit = most > 1 ? t(held.length > 0 ? "buy.held" : "buy.limit", { held: number(held.length), n: number(most) }) : "";
  const unpaid = held.find((o) => o.status === "pending_payment") ?? (p.is === "bought" && !order ? {} : undefined);
  const rejoins = v.entry.mode === "room" && held.length < most && !unpaid; // another unit needs another place
  if ((held.length > 0 || p.is === "bought") && !rejoins) {
    const fresh = p.is === "bought" && !p.already;
    const refused = p.is === "refused" && performance.now() - p.since < REFUSAL_SHOWN;
    const note = refused ? explain(p.problem) : !fresh ? t("buy.already") : !unpaid ? t("buy.paid") : unpaid.id ? t("buy.boughtFor", { left: left(mine.timeLeft(unpaid), true) }) : t("buy.bought");
    // Another unit needs a press of its own: a press on the same place never buys a second one.
    const another = held.length > 0 && held.length < most && state === "on_sale" && v.entry.mode !== "room" ? t("buy.another") : undefined;
    return {
      label: t(unpaid ? "buy.pay" : "buy.see"), href: `/orders/${unpaid?.id ?? order?.id ?? p.order}`, calm: !unpaid, note, limit, another,
      say: fresh && unpaid ? t("buy.bought") : note,
    };
  }
  const inRoom = turn(v, state);
  // A rejection that follows from the sale's state is shown for a while, then the state itself.
  const byState = !p.open && ["sold_out", "sale_not_started", "sale_ended"].includes(p.problem?.code);
  if (p.is === "refused" && (!byState || performance.now() - p.since < REFUSAL_SHOWN)) {
    const note = explain(p.problem) + (p.open ? ` ${t("buy.unknown")}` : "");
    if (inRoom && !p.open) return inRoom.disabled || inRoom.label === t("room.again") ? inRoom : { ...inRoom, note, reference: reference(p.problem), say: note };
    if (state === "on_sale") return { label: t("buy.retry"), note, reference: reference(p.problem), say: note };
    if (byState) return { label: t(`button.${state}`), disabled: true, note, say: note };
  }
  const guest = state === "upcoming" && !session.user() && !session.pending();
  if (inRoom?.disabled && guest) return { ...inRoom, label: t("ready.login"), disabled: false, ready: true };
  if (inRoom) return inRoom;
  const proof = human.stateOf(v.id);
  const check = proof ? t(`proof.${proof}`) : "";
  const say = `${t(`state.${state}`)} ${check}`;
  if (state === "on_sale") return { label: t("buy.now"), note: check, limit, say };
  if (guest) return { label: t("ready.login"), ready: true, note: t("ready.why"), limit, say };
  return { label: t(`button.${state}`), disabled: true, note: `${t(`note.${state}`)} ${check}`, limit, say };
}
