// The visitor's places in waiting rooms. A place belongs to the user and survives reloads: its ticket is in
// localStorage. One tab follows a place for all tabs of the browser (Web Locks) and passes on what it receives. It uses
// an event stream, in the background as well, because browsers slow down the timers of hidden pages.

import * as clock from "../lib/clock.js";
import { deleteMine, getMine } from "../lib/api.js";
import { backoff, sleep, topic } from "../lib/events.js";
import { t } from "../lib/i18n.js";
import { session } from "../lib/session.js";
import { forAll } from "../lib/storage.js";
import { follow } from "../lib/stream.js";
import { channelOf, exclusive } from "../lib/tabs.js";

const MAX_STREAMS = 1; // of this tab; see mine.js. Further places are polled
const POLL = 5_000; // ms; of an admitted visitor
const RETRY = 1_000;
const SLOWEST = 8_000; // ms; the server treats a visitor without a request for ten seconds as absent
const STORED = "seckill.place.";

const places = new Map(); // by voucher: {user, ticket, state, abort, leads}
const changes = topic();
const channel = channelOf("seckill.rooms");
let streams = 0;
let heldUntil = 0; // performance.now(); until then a proxy holds streams back, as far as known, and places are polled

export const onChange = changes.on;

// place returns the visitor's place in the waiting room of a sale as {is, ...}:
//   none      no place
//   asking    there is a ticket, and the server has not answered yet, or not since the pass expired
//   lobby     waits for the start
//   waiting   waits for the turn, at `position` with `ahead` buyers ahead; `eta` is in seconds, undefined if unknown
//   admitted  may buy with `pass` until `until` (server time in ms)
//   sold_out  waits for a unit to come back
//   lost      the turn has passed, or the place was given up
// `paused` and `message` are the shop's. `offline` is set while the server does not answer.
export function place(id) {
  const state = places.get(id)?.state ?? { is: "none" };
  // After an outage the server gives another pass.
  return state.is === "admitted" && state.until <= clock.now() ? { is: "asking", offline: state.offline } : state;
}

// badge returns the most urgent place in a few words, for the title of the page; "" without a place.
export function badge() {
  const all = [...places.keys()].map(place);
  if (all.some((p) => p.is === "admitted")) return t("room.badgeTurn");
  const positions = all.filter((p) => p.is === "waiting").map((p) => p.position);
  if (positions.length > 0) return t("room.badge", { position: Math.min(...positions) });
  return all.some((p) => p.is === "lobby") ? t("room.badgeLobby") : "";
}

// begin keeps the place that the server gave a user with an answer to POST entry.
export function begin(id, user, answer) {
  stop(id);
  const p = { user, ticket: answer.ticket, state: { is: "asking" }, abort: new AbortController() };
  places.set(id, p);
  forAll.set(nameOf(user, id), p.ticket);
  take(id, p, answer);
  keep(id, p);
}

// leave gives up a place. Problems: those of the request.
export async function leave(id) {
  const p = places.get(id);
  try {
    await deleteMine(path(id), { as: p.user, headers: headers(p) });
  } catch (problem) {
    if (problem.code !== "entry_required") throw problem; // otherwise the place was lost already
  }
  if (places.get(id) === p) drop(id, p, "none");
}

// done ends a place after a purchase.
export function done(id) {
  const p = places.get(id);
  if (p) drop(id, p, "none");
}

// renew reads a place and returns its pass, after the server has refused one; undefined if there is none.
export async function renew(id) {
  const p = places.get(id);
  if (!p) return undefined;
  try {
    take(id, p, await getMine(path(id), { as: p.user, headers: headers(p) }));
  } catch (problem) {
    fail(id, p, problem);
  }
  return place(id).pass;
}

const path = (id) => `/vouchers/${id}/entry`;
const nameOf = (user, id) => `${STORED}${user}.${id}`;
const headers = (p) => ({ "X-Entry-Ticket": p.ticket });

function set(id, p, state) {
  if (places.get(id) !== p) return;
  p.state = state;
  channel?.postMessage({ user: p.user, id, state });
  changes.emit(id);
}

// take handles an answer of the server. When a pass expires, it asks again.
function take(id, p, a) {
  const until = Date.parse(a.expires_at);
  if (a.state === "admitted" && until !== p.state.until) {
    clearTimeout(p.expiry);
    p.expiry = setTimeout(() => places.get(id) === p && !p.abort.signal.aborted && renew(id), until - clock.now());
  }
  set(id, p, {
    is: a.state, pass: a.pass, until, position: a.position, ahead: a.ahead, eta: a.eta_seconds, paused: a.paused,
    message: a.message,
  });
}

// fail handles a Problem. Only the server's word ends a place.
function fail(id, p, { code }) {
  if (code === "entry_required") drop(id, p, "lost");
  else if (["sale_ended", "invalid_state", "not_found"].includes(code)) drop(id, p, "none");
  else if (code === "sold_out") set(id, p, { is: "sold_out" });
  else if (code === "sale_not_started") set(id, p, { is: "lobby" }); // the shop has moved the opening
  else set(id, p, { ...p.state, offline: true });
}

// drop ends a place in all tabs.
function drop(id, p, is) {
  if (places.get(id) !== p) return;
  forAll.set(nameOf(p.user, id), null);
  set(id, p, { is });
  p.abort.abort();
}

// stop ends following a place in this tab.
function stop(id) {
  places.get(id)?.abort.abort();
  places.delete(id);
}

// keep follows a place as soon as no other tab does.
async function keep(id, p) {
  const { signal } = p.abort;
  const lead = () => new Promise((release) => {
    p.leads = true;
    signal.addEventListener("abort", release);
    watch(id, p).finally(release);
  });
  const alone = () => poll(id, p); // as every tab follows then, streams would use up the browser's connections
  return exclusive(nameOf(p.user, id), lead, { signal, alone }).catch((err) => {
    if (!signal.aborted) throw err;
  });
}

// watch follows a place by a stream, or by polls where there is none: the server ends the streams of a sale that is sold out.
async function watch(id, p) {
  if (streams >= MAX_STREAMS) return poll(id, p);
  const soldOut = () => p.state.is === "sold_out";
  const held = () => performance.now() < heldUntil;
  while (!p.abort.signal.aborted) {
    if (soldOut()) await poll(id, p, soldOut);
    else if (held()) await poll(id, p, held);
    else {
      const pause = await stream(id, p);
      if (pause) heldUntil = performance.now() + pause;
      else if (!soldOut()) return;
    }
  }
}

// stream returns when the sale is sold out, or for how long to poll because a proxy holds the stream back.
async function stream(id, p) {
  streams++;
  const end = new AbortController();
  const stop = () => end.abort();
  p.abort.signal.addEventListener("abort", stop);
  const failed = (problem) => {
    fail(id, p, problem);
    if (p.state.is === "sold_out") stop();
  };
  return follow(`${path(id)}/events`, {
    signal: end.signal, headers: headers(p), most: SLOWEST,
    onEvent: ({ event, data }) => (event === "end" ? failed(JSON.parse(data)) : take(id, p, JSON.parse(data))),
    onProblem: (problem) => problem && failed(problem),
  }).finally(() => {
    streams--;
    p.abort.signal.removeEventListener("abort", stop);
  });
}

// poll reads a place as long as `needed` returns true. In a sale that is sold out it does so just often enough that the
// buyer counts as present: a unit that comes back goes to the first of those.
async function poll(id, p, needed = () => true) {
  const { signal } = p.abort;
  let pause = p.state.is === "sold_out" ? SLOWEST : 0;
  for (let failures = 0; ; ) {
    await sleep(pause, signal);
    if (signal.aborted || !needed()) return;
    try {
      const answer = await getMine(path(id), { as: p.user, headers: headers(p), signal });
      failures = 0;
      pause = answer.poll_after_ms ?? POLL;
      take(id, p, answer);
    } catch (problem) {
      if (!problem.code) throw problem;
      if (signal.aborted) return;
      pause = problem.code === "sold_out" ? SLOWEST : problem.retryAfter + backoff(failures++, RETRY, SLOWEST);
      fail(id, p, problem);
    }
  }
}

// restore follows the stored places of a user.
function restore(user) {
  for (const id of [...places.keys()]) stop(id);
  changes.emit();
  if (!user) return;
  const prefix = nameOf(user.id, "");
  const names = forAll.names().filter((name) => name.startsWith(prefix));
  for (const name of names) adopt(user.id, name.slice(prefix.length), { is: "asking" });
  channel?.postMessage({ user: user.id, hello: true });
}

// adopt shows a place as another tab or a former page knows it, and follows it from its stored ticket.
function adopt(user, id, state) {
  let p = places.get(id);
  if (!p || p.abort.signal.aborted) {
    const ticket = forAll.get(nameOf(user, id)); // null: another tab follows it
    p = { user, ticket, state, abort: new AbortController() };
    places.set(id, p);
    if (ticket !== null) keep(id, p);
  }
  p.state = state;
  if (["none", "lost"].includes(state.is)) p.abort.abort();
  changes.emit(id);
}

// start restores the places of the session, and again at each change of the user.
export function start() {
  session.on(restore);
  if (session.user()) restore(session.user());
  // A page that the browser keeps for the back button must leave its places to the other tabs.
  addEventListener("pagehide", () => restore(null));
  addEventListener("pageshow", (event) => event.persisted && restore(session.user()));
  channel?.addEventListener("message", ({ data: { user, id, state, hello } }) => {
    if (user !== session.user()?.id) return;
    if (!hello) return adopt(user, id, state);
    for (const [id, p] of places) if (p.leads && !p.abort.signal.aborted) channel.postMessage({ user, id, state: p.state });
  });
}
