// What the button of a sale does, and what its card says about the visitor's purchase.

import * as clock from "../lib/clock.js";
import { explain, reference } from "../lib/explain.js";
import { hour, left, number, t } from "../lib/i18n.js";
import { session } from "../lib/session.js";
import * as buy from "./buy.js";
import * as human from "./human.js";
import * as mine from "./mine.js";
import { queueNote } from "./queue.js";
import { turn } from "./turn.js";

const REFUSAL_SHOWN = 8_000; // ms
const DAY = 86_400_000; // ms

// action returns what the card of a sale shows beside its facts:
//   label      of the button; `disabled`, `busy`, `href` if it is a link, `calm` if it is not the next step, `ready` if it
//              opens the login
//   note       the sentence beside it; `idle` if it only explains the button, so that lists leave it out
//   kind       of a result: won, waiting, turn, lost, warn; with `head`, `figure` and `part` ([value, max] of a bar)
//   until      {at, label}: the time that counts now, in place of that of the sale
//   limit, another, reference, leave, mine, reserved
//   say        the text for screen readers: it changes with events, not with every second
// `alone` means that the page shows this sale only.
export function action(v, state, alone) {
  const label = state === "on_sale" ? t("buy.now") : closed(v, state, alone);
  if (v.preview) return { label, disabled: true, note: t("sale.preview"), say: "" };
  const p = buy.purchase(v.id);
  const held = mine.holding(v.id);
  const order = held[0] ?? (p.order && mine.order(p.order));
  switch (p.is) {
    case "buying":
      if (p.joining) return { label: t("working"), disabled: true, busy: true, note: p.proving ? t("proof.working") : "", say: "" };
      return { label: t("buy.buying"), disabled: true, busy: true, note: t(p.proving ? "proof.working" : "buy.holdOn"), say: t("buy.buying") };
    case "waiting": {
      const why = t(`waiting.${p.why.code}`);
      const seconds = Math.max(1, Math.ceil((p.at - performance.now()) / 1000));
      return { label: t("buy.waiting"), disabled: true, busy: true, kind: "waiting", head: why, note: t("buy.retryIn", { seconds }), say: why };
    }
    case "queued":
      return { label: t("buy.waiting"), disabled: true, busy: true, kind: "waiting", head: t("buy.queued"), note: queueNote(order), say: t("buy.queued") };
  }
  const most = v.limit_per_user ?? 1;
  const limit = most > 1 ? t(held.length > 0 ? "buy.held" : "buy.limit", { held: number(held.length), n: number(most) }) : "";
  const due = held.filter((o) => o.status === "pending_payment");
  const unpaid = due.at(-1) ?? (p.is === "bought" && !order ? {} : undefined); // the oldest expires first
  const rejoins = v.entry.mode === "room" && held.length < most && !unpaid; // another unit needs another place
  if ((held.length > 0 || p.is === "bought") && !rejoins) return bought(v, state, alone, { p, held, order, due, unpaid, most, limit });

  const place = turn(v, state, alone);
  const inRoom = place && { label, ...place };
  // A rejection that follows from the sale's state is shown for a while, then the state itself.
  const byState = !p.open && ["sold_out", "sale_not_started", "sale_ended"].includes(p.problem?.code);
  const lost = byState && p.problem.code === "sold_out" && state === "sold_out";
  if (p.is === "refused" && (!byState || lost || performance.now() - p.since < REFUSAL_SHOWN)) {
    const note = explain(p.problem) + (p.open ? ` ${t("buy.unknown")}` : "");
    const refusal = { kind: "warn", head: "", note, reference: reference(p.problem), say: note };
    if (inRoom && !p.open) return inRoom.disabled || inRoom.label === t("room.again") ? inRoom : { ...inRoom, ...refusal };
    if (state === "on_sale") return { label: t("buy.retry"), ...refusal };
    if (lost) return { label, disabled: true, kind: "lost", head: t("buy.lost"), note: t("note.sold_out"), say: t("buy.lost") };
    if (byState) return { label, disabled: true, kind: "warn", note, say: note };
  }
  const guest = alone && state === "upcoming" && !session.user() && !session.pending();
  if (inRoom?.disabled && guest) return { ...inRoom, label: t("ready.login"), disabled: false, ready: true };
  if (inRoom) return inRoom;
  const proof = human.stateOf(v.id);
  const check = proof ? t(`proof.${proof}`) : "";
  const say = `${t(`state.${state}`)} ${check}`;
  if (state === "on_sale") return { label, note: check, idle: true, limit, say };
  if (guest) return { label: t("ready.login"), ready: true, note: t("ready.why", { at: hour(v.begin_at, clock.now()) }), limit, say };
  const missed = alone && state === "sold_out" && { kind: "lost", head: t("state.sold_out") };
  return { label, disabled: true, ...missed, note: `${t(`note.${state}`)} ${check}`.trim(), idle: true, limit, say };
}

// closed returns the label of a button that cannot be pressed. The card of a list has no room for a date, which is beside it.
function closed(v, state, alone) {
  const now = clock.now();
  if (state === "upcoming" && !alone && Date.parse(v.begin_at) - now > DAY) return t("state.upcoming");
  return t(`button.${state}`, { at: hour(v.begin_at, now) });
}

// bought is the action of a sale of which the visitor has a unit.
function bought(v, state, alone, { p, held, order, due, unpaid, most, limit }) {
  const several = due.length > 1;
  const fresh = p.is === "bought" && !p.already;
  const refused = p.is === "refused" && performance.now() - p.since < REFUSAL_SHOWN;
  const until = unpaid?.id ? { at: Date.parse(unpaid.expires_at), label: t("time.payWithin") } : undefined;
  let note = t(fresh ? "buy.paid" : "buy.already");
  if (unpaid) note = until ? t("buy.payWithin", { left: left(mine.timeLeft(unpaid), true) }) : t("buy.payInTime");
  if (several) note = `${t("buy.unpaid", { n: number(due.length) })} ${note}`;
  if (refused) note = explain(p.problem);
  return {
    label: t(several ? "orders.title" : !unpaid ? "buy.see" : alone ? "buy.pay" : "buy.payShort"), calm: !unpaid,
    href: several ? "/orders" : `/orders/${unpaid?.id ?? order?.id ?? p.order}`,
    kind: refused ? "warn" : "won", head: unpaid && !refused ? t("buy.won") : "", note, until, limit,
    // Another unit needs a press of its own: a press on the same place never buys a second one.
    another: held.length > 0 && held.length < most && state === "on_sale" && v.entry.mode !== "room" ? t("buy.another") : undefined,
    say: unpaid && !refused ? `${t("buy.won")} ${t("buy.payInTime")}` : note,
  };
}
