// The page of the sales.

import { announce } from "../lib/announce.js";
import * as clock from "../lib/clock.js";
import { confirm } from "../lib/confirm.js";
import { attr, h, newID, show, text } from "../lib/dom.js";
import { explain, reference } from "../lib/explain.js";
import { left, moment, money, number, t } from "../lib/i18n.js";
import { singleFlight } from "../lib/intent.js";
import { session } from "../lib/session.js";
import * as buy from "./buy.js";
import * as human from "./human.js";
import { queueNote } from "./queue.js";
import * as mine from "./mine.js";
import * as rooms from "./rooms.js";
import * as sales from "./sales.js";
import { message, turn } from "./turn.js";

// mount shows the page in root and returns the function that removes it.
export function mount(root) {
  const cards = new Map();
  const grid = h("ul", { class: "grid" });
  const empty = h("p", { class: "empty" });
  const banner = h("p", { class: "banner", role: "status" });
  const more = h("button", { type: "button", class: "quiet", onclick: () => sales.more() }, t("more"));
  root.replaceChildren(
    h("header", { class: "lead" },
      h("h1", { tabindex: -1 }, t("store.title")),
      h("p", {}, t("store.lead"))),
    banner, grid, empty, h("div", { class: "center" }, more));

  function render() {
    text(banner, sales.error ? t(sales.error.code === "network" ? "store.offline" : "store.unavailable") : "");
    show(banner, sales.error);
    text(empty, sales.loaded ? t("store.empty") : t("loading"));
    show(empty, sales.all().length === 0 && !sales.error);
    show(more, sales.hasMore());
    const now = clock.now();
    for (const v of sales.all()) if (!cards.has(v.id)) add(v, now);
    for (const [id, card] of cards) {
      if (sales.sale(id)) continue;
      card.element.remove();
      cards.delete(id);
    }
    tick();
  }

  // add inserts a card in order. It keeps its place while the page is open, so that a tap never hits a card that has moved.
  function add(v, now) {
    const c = card(v);
    c.rank = rank(v, now);
    const next = [...cards.values()].filter((other) => before(c.rank, other.rank))
      .reduce((first, other) => (!first || before(other.rank, first.rank) ? other : first), null);
    grid.insertBefore(c.element, next?.element ?? null);
    cards.set(v.id, c);
  }

  // tick updates the cards and schedules itself for the next second, start or end.
  let timer = 0;
  function tick() {
    clearTimeout(timer);
    const now = clock.now();
    for (const c of cards.values()) c.update(now);
    let next = 1000 - (now % 1000);
    for (const v of sales.all()) {
      for (const time of [v.begin_at, v.end_at, v.entry.opens_at].map(Date.parse)) {
        if (time > now) next = Math.min(next, time - now);
      }
    }
    timer = setTimeout(tick, next + 1);
  }

  const ends = [
    sales.onChange(render), buy.onChange(tick), human.onChange(tick), mine.onChange(tick), rooms.onChange(tick), session.on(tick), sales.watch(),
  ];
  render();
  return () => {
    clearTimeout(timer);
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

const HOUR = 3_600_000;
const REFUSAL_SHOWN = 8_000; // ms

// card returns the card of a voucher: {element, update}; update(now) renders the current state.
function card(first) {
  const id = first.id;
  const titleID = newID("sale");
  const noteID = newID("note");
  const chip = h("span", { class: "chip" });
  const title = h("h2", { id: titleID });
  const sub = h("p", { class: "sub" });
  const price = h("strong", {});
  const worth = h("s", {});
  const off = h("span", { class: "off" });
  const stockBar = h("progress", { "aria-labelledby": titleID });
  const stockText = h("span", {});
  const timeLabel = h("span", { class: "label" });
  const time = h("span", { class: "time", role: "timer", "aria-live": "off" });
  const rules = h("p", { class: "rules" });
  const label = h("span", { id: newID("buy") });
  const button = h("button", {
    type: "button", class: "primary buy", "aria-describedby": noteID, "aria-labelledby": `${label.id} ${titleID}`, onclick: onPress,
  }, label);
  const link = h("a", { "aria-describedby": noteID });
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
  const element = h("li", { class: "sale", "data-voucher": id },
    h("div", { class: "price" }, h("span", {}, price, " ", h("span", { class: "sr" }, t("store.insteadOf")), worth), off),
    h("div", { class: "what" }, h("div", { class: "head" }, title, chip), sub, rules),
    h("div", { class: "stock" }, stockBar, stockText),
    h("div", { class: "clock" }, timeLabel, time),
    h("div", { class: "act" }, word, button, link, note, ref, leave, error));
  let was = null;
  let said = null;
  let turned = null;

  function onPress() {
    if (button.getAttribute("aria-disabled") !== "true") buy.press(id);
  }

  function update(now) {
    const v = sales.sale(id);
    if (!v) return;
    text(title, v.title);
    text(sub, v.sub_title);
    show(sub, v.sub_title);
    text(rules, v.rules);
    show(rules, v.rules);
    text(price, money(v.pay_value, v.currency));
    text(worth, money(v.actual_value, v.currency));
    const percent = v.actual_value > v.pay_value ? Math.round(100 - (100 * v.pay_value) / v.actual_value) : 0;
    text(off, t("store.off", { percent }));
    show(off, percent > 0);
    const state = sales.stateOf(v, now);
    attr(element, "data-state", state);
    text(chip, t(`state.${state}`));
    attr(stockBar, "max", Math.max(1, v.initial_stock, v.stock));
    attr(stockBar, "value", v.stock);
    text(stockText, t("store.left", { left: number(v.stock), all: number(Math.max(v.initial_stock, v.stock)) }));
    showTime(v, state, now);
    const a = action(v, state);
    showAction(a);
    if (!a.href && !a.busy) human.prepare(v, state, now);
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

  function showTime(v, state, now) {
    const until = Date.parse(state === "upcoming" ? v.begin_at : v.end_at);
    const far = until - now > 48 * HOUR ? "At" : "";
    text(timeLabel, t(state === "ended" ? "time.ended" : `time.${state === "upcoming" ? "begins" : "ends"}${far}`));
    text(time, state === "ended" || far ? moment(until) : left(until - now));
    attr(element, "data-soon", state === "upcoming" && until - now < 60_000);
  }

  function showAction(a) {
    const focused = document.activeElement === button || document.activeElement === link;
    text(label, a.label);
    attr(button, "aria-disabled", a.disabled ? "true" : null);
    attr(button, "data-busy", a.busy);
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
  if (p.is === "bought" || held.length >= (v.limit_per_user ?? 1)) {
    const id = order?.id ?? p.order;
    const unpaid = (order?.status ?? "pending_payment") === "pending_payment";
    const note = t(p.already || p.is !== "bought" ? "buy.already" : unpaid ? "buy.bought" : "buy.paid");
    const another = p.is === "bought" && order && held.length < (v.limit_per_user ?? 1) && !unpaid;
    if (!another) return { label: t(unpaid ? "buy.pay" : "buy.see"), href: `/orders/${id}`, calm: !unpaid, note, say: note };
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
  if (inRoom) return inRoom;
  const proof = human.stateOf(v.id);
  const check = proof ? t(`proof.${proof}`) : "";
  const say = `${t(`state.${state}`)} ${check}`;
  if (state === "on_sale") return { label: t("buy.now"), note: check, say };
  return { label: t(`button.${state}`), disabled: true, note: `${t(`note.${state}`)} ${check}`, say };
}
