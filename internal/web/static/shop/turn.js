// What the card of a sale with a waiting room shows and says.

import * as clock from "../lib/clock.js";
import { left, number, stamp, t } from "../lib/i18n.js";
import * as rooms from "./rooms.js";

const SPOKEN = 30_000; // ms
const FAR = 24 * 3_600_000;

const spoken = new Map(); // by sale: {position, at}
const furthest = new Map(); // by sale: the first known position, from which the bar begins

// announced returns the position to announce: it changes at most every SPOKEN, except for the first position.
function announced(id, position) {
  const last = spoken.get(id);
  if (position > 1 && last?.position >= position && performance.now() - last.at < SPOKEN) return last.position;
  spoken.set(id, { position, at: performance.now() });
  return position;
}

// turn returns what to show while the visitor has no order, as action does, without a label if that is the sale's; undefined for
// a sale without a room or when the room is over. `leave` is set if there is a place to give up, `mine` if it is the visitor's turn,
// and `reserved` if the units that are left are reserved for others.
export function turn(v, state, alone) {
  if (v.entry?.mode !== "room" || state === "ended") return undefined;
  const p = rooms.place(v.id);
  const shown = places[p.is](v, state, p, alone);
  if (shown && p.offline) shown.note = t("room.offline");
  return shown;
}

// message returns the shop's message to those who wait; "" if there is none.
export function message(v, state) {
  if (v.entry?.mode !== "room" || state === "ended") return "";
  const p = rooms.place(v.id);
  return (["lobby", "waiting", "admitted"].includes(p.is) ? p.message : v.entry.message) ?? "";
}

const waits = (head, note, say) => ({ label: t("buy.waiting"), disabled: true, kind: "waiting", head, note, say, leave: true });

// reserved reports whether no unit is free: the server gives no time then.
const reserved = (p) => !p.paused && p.eta === undefined;

// wait returns how long it takes until the turn.
function wait(p) {
  if (p.paused) return t("room.paused");
  if (reserved(p)) return t("room.reserved");
  const minutes = Math.round(p.eta / 60);
  return minutes < 1 ? t("room.soon") : t("room.minutes", { minutes: number(minutes) });
}

const places = {
  none(v, state, p, alone) {
    const until = Date.parse(v.entry.opens_at) - clock.now();
    if (state === "upcoming" && until > 0) {
      const note = until > FAR ? t("room.opensAt", { at: stamp(v.entry.opens_at) }) : t("room.opensIn", { left: left(until) });
      return { disabled: true, note, say: t("state.upcoming") };
    }
    if (state === "sold_out") return undefined;
    return { label: t(alone ? "room.join" : "room.joinShort"), note: t(state === "upcoming" ? "room.early" : "room.late"), idle: true, say: t("room.open") };
  },
  asking: () => ({ label: t("working"), disabled: true, busy: true, note: "", say: "" }),
  lobby: (v, state, p) => waits(t("room.lobby"), t(p.paused ? "room.paused" : "room.drawn"), t(p.paused ? "room.paused" : "room.lobby")),
  waiting(v, state, p) {
    const ahead = p.ahead > 0 ? t("room.ahead", { count: number(p.ahead) }) : t("room.next");
    const from = Math.max(furthest.get(v.id) ?? 0, p.position);
    furthest.set(v.id, from);
    return {
      ...waits(t("room.position"), `${ahead} ${wait(p)}`, p.paused ? t("room.paused") : t("room.positionIs", { position: number(announced(v.id, p.position)) })),
      figure: number(p.position), part: [from - p.position + 1, from + 1], reserved: reserved(p),
    };
  },
  admitted: (v, state, p) => ({
    label: t("buy.now"), kind: "turn", head: t("room.yours"), note: t("room.turn", { left: left(p.until - clock.now(), true) }),
    until: { at: p.until, label: t("time.buyWithin") }, say: t("room.yours"), leave: true, mine: true,
  }),
  sold_out: () => waits(t("button.sold_out"), t("room.soldOut"), t("room.soldOut")),
  lost: (v, state) => (state === "sold_out" ? undefined : {
    label: t("room.again"), kind: "lost", head: t("room.lost"), note: t("room.lostNote"), say: `${t("room.lost")} ${t("room.lostNote")}`,
  }),
};
