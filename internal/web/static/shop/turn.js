// What the card of a sale with a waiting room shows and says.

import * as clock from "../lib/clock.js";
import { left, moment, number, t } from "../lib/i18n.js";
import * as rooms from "./rooms.js";

const SPOKEN = 30_000; // ms
const FAR = 24 * 3_600_000;

const spoken = new Map(); // by sale: {position, at}

// announced returns the position to announce: it changes at most every SPOKEN, except for the first position.
function announced(id, position) {
  const last = spoken.get(id);
  if (position > 1 && last?.position >= position && performance.now() - last.at < SPOKEN) return last.position;
  spoken.set(id, { position, at: performance.now() });
  return position;
}

// turn returns what to show while the visitor has no order, as action of store.js does; undefined for a sale without a
// room or when the room is over. In addition: `leave` if there is a place to give up, and `mine` if it is the visitor's
// turn.
export function turn(v, state) {
  if (v.entry?.mode !== "room" || state === "ended") return undefined;
  const p = rooms.place(v.id);
  const shown = places[p.is](v, state, p);
  if (shown && p.offline) shown.note = t("room.offline");
  return shown;
}

// message returns the shop's message to those who wait; "" if there is none.
export function message(v, state) {
  if (v.entry?.mode !== "room" || state === "ended") return "";
  const p = rooms.place(v.id);
  return (["lobby", "waiting", "admitted"].includes(p.is) ? p.message : v.entry.message) ?? "";
}

const waits = (label, note, say = note) => ({ label, disabled: true, note, say, leave: true });

const places = {
  none(v, state) {
    const until = Date.parse(v.entry.opens_at) - clock.now();
    if (state === "upcoming" && until > 0) {
      const note = until > FAR ? t("room.opensAt", { at: moment(v.entry.opens_at) }) : t("room.opensIn", { left: left(until) });
      return { label: t("button.upcoming"), disabled: true, note, say: t("state.upcoming") };
    }
    if (state === "sold_out") return undefined;
    return { label: t("room.join"), note: t(state === "upcoming" ? "room.early" : "room.late"), say: t("room.open") };
  },
  asking: () => ({ label: t("room.asking"), disabled: true, busy: true, note: "", say: "" }),
  lobby: (v, state, p) => waits(t("room.lobby"), t(p.paused ? "room.paused" : "room.drawn"), t(p.paused ? "room.paused" : "room.lobby")),
  waiting(v, state, p) {
    const position = number(p.position);
    const ahead = p.ahead > 0 ? t("room.ahead", { count: number(p.ahead) }) : t("room.next");
    if (p.paused) return waits(t("room.position", { position }), `${ahead} ${t("room.paused")}`, t("room.paused"));
    const minutes = Math.round(p.eta / 60);
    const eta = p.eta === undefined ? "" : minutes < 1 ? t("room.soon") : t("room.minutes", { minutes: number(minutes) });
    return waits(t("room.position", { position }), `${ahead} ${eta}`, t("room.position", { position: number(announced(v.id, p.position)) }));
  },
  admitted: (v, state, p) => ({
    label: t("buy.now"), note: t("room.turn", { left: left(p.until - clock.now(), true) }), say: t("room.yours"), leave: true, mine: true,
  }),
  sold_out: () => waits(t("button.sold_out"), t("room.soldOut")),
  lost: (v, state) => (state === "sold_out" ? undefined : { label: t("room.again"), note: t("room.lost"), say: t("room.lost") }),
};
