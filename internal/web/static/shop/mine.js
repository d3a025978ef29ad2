// The visitor's orders, and what is going on with them: one truth for all views of this tab, and news for the other tabs.
//
// An order that is under way is watched by a stream. A browser opens six connections to a server, for all its tabs: so
// a tab has two streams at most, none while nobody looks at it, and asks for the rest now and then.

import * as clock from "../lib/clock.js";
import { getMine, newKey, postMine } from "../lib/api.js";
import { backoff, topic } from "../lib/events.js";
import { session } from "../lib/session.js";
import { follow } from "../lib/stream.js";

const MAX_STREAMS = 2;
const LOOK = 5_000;
const QUIET = 4; // orders that nothing is happening to may wait for months: they are asked for every so many looks
const LOST = 5_000; // so long a queued order may be nowhere to be found: it is moving from one place to another
const PAYING = 20_000; // how long a payment may be under way before the page asks what became of it

// How far an order has come: it never goes back, so an answer that was overtaken by another changes nothing.
const progress = {
  queued: 0, pending_payment: 1, paid: 2, redeemed: 3, refunding: 3, cancelled: 4, refunded: 4, failed: 4,
};

// final are the statuses after which nothing happens; active ones hold a unit of the sale.
export const final = (order) => ["redeemed", "cancelled", "refunded", "failed"].includes(order.status);
export const active = (order) => !["cancelled", "refunded", "failed"].includes(order.status);

// quiet are the orders that wait for their owner.
const quiet = (o) => o.status === "paid" || (o.status === "pending_payment" && timeLeft(o) > 0);

const orders = new Map();
const lost = new Map(); // by order: since when the server does not know it
const busy = new Map(); // by order: {action, key, problem, since}
const streams = new Map();
const changes = topic();
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("seckill.orders") : null;
let state = "none"; // none, loading, loaded, failed
let problem = null;

export const onChange = changes.on;
export const loadState = () => ({ state, problem });
export const order = (id) => orders.get(id);
export const doing = (id) => busy.get(id) ?? {};

// list is all orders, the newest first. Ids grow, and are too large for numbers.
export function list() {
  return [...orders.values()].sort((a, b) => b.id.length - a.id.length || (b.id < a.id ? -1 : 1));
}

// holding are the orders that hold units of a voucher.
export const holding = (voucherID) => list().filter((o) => o.voucher_id === voucherID && active(o));

// put takes an order in, unless more is known of it already, or it is not the visitor's: an answer may come after he has
// logged out. What the page itself has made of silence (`guessed`) gives way to whatever the server says.
export function put(order, tell = true) {
  if (order.user_id !== session.user()?.id) return;
  let known = orders.get(order.id);
  if (known?.guessed) known = { status: known.status };
  else if (known && progress[known.status] > progress[order.status]) return;
  orders.set(order.id, { ...known, ...order });
  if (known?.status !== order.status) {
    if (tell) channel?.postMessage({ user: session.user()?.id });
    if (known) busy.delete(order.id); // it has moved: whatever was under way is over
  }
  changes.tell(order, known?.status);
  arrange();
}

// load reads the orders from the server; `more` adds the next page.
let cursor = null;
export const hasMore = () => cursor !== null;
export async function load(more = false) {
  const user = session.user()?.id;
  if (!user) return;
  if (state === "none" || state === "failed") state = "loading";
  try {
    const page = await getMine(`/orders?limit=50${more && cursor ? `&cursor=${cursor}` : ""}`);
    if (session.user()?.id !== user) return;
    if (more || state === "loading") cursor = page.next_cursor;
    for (const o of page.items) put(o, false);
    [state, problem] = ["loaded", null];
  } catch (err) {
    if (session.user()?.id !== user) return;
    problem = err;
    if (state === "loading") state = "failed";
  }
  changes.tell();
}

// fetchOne reads one order, which need not be on the pages that were loaded. One that was queued and is nowhere to be
// found for a while has failed: the queue lost it.
export async function fetchOne(id) {
  try {
    put(await getMine(`/orders/${encodeURIComponent(id)}`));
    lost.delete(id);
  } catch (err) {
    const known = order(id);
    if (err.status !== 404 || known?.status !== "queued") throw err;
    if (!lost.has(id)) lost.set(id, performance.now());
    if (performance.now() - lost.get(id) >= LOST) put({ ...known, status: "failed", reason: "internal", guessed: true });
  }
  return order(id);
}

// act pays, cancels or refunds. A second press while it runs does nothing. Only the first press of an intent makes a
// key: when the answer was lost, the next press asks for the same thing again.
export async function act(id, action) {
  const before = doing(id);
  if (before.action && !before.problem) return;
  const key = before.action === action ? before.key : newKey();
  const user = session.user()?.id;
  busy.set(id, { action, key, since: performance.now() });
  changes.tell();
  try {
    const answer = await postMine(`/orders/${id}/${action}`, { as: user, key, body: action === "pay" ? { provider: "sandbox" } : undefined });
    put(action === "pay" ? answer.order : answer);
    if (session.user()?.id !== user) return;
    if (action === "pay" && order(id)?.status === "pending_payment") {
      busy.set(id, { action, key, asked: true, since: performance.now() }); // until the provider says so
      arrange();
    } else busy.delete(id);
  } catch (err) {
    if (session.user()?.id !== user) return;
    if (err.code === "invalid_state") {
      busy.delete(id); // it has moved on: show where to
      await fetchOne(id).catch(() => {});
      if (order(id)?.status === "pending_payment") busy.set(id, { action, problem: err });
    } else busy.set(id, { action, key, problem: err });
  }
  changes.tell();
}

// unpaid finds out about payments that have not come through: a provider may have said no.
async function unpaid(id) {
  const was = doing(id);
  try {
    const payments = (await getMine(`/orders/${id}/payments`)).items;
    if (doing(id) !== was || order(id)?.status !== "pending_payment") return;
    if (payments.length > 0 && payments.every((p) => p.status === "failed")) {
      busy.set(id, { action: "pay", problem: { code: "payment_failed" } });
      changes.tell();
    } else if (performance.now() - was.since > PAYING) busy.delete(id), changes.tell();
  } catch {
    // asked again
  }
}

const lastIDs = new Map();
let looked = ""; // the order that is looked at by itself

// lookAt says which order the page is about; "" for none in particular.
export function lookAt(id) {
  looked = id;
  arrange();
}

// wanted are the orders to watch: those of which the visitor waits to hear.
function wanted() {
  if (document.hidden || !session.user()) return [];
  const rank = (o) => (o.id === looked || doing(o.id).asked ? 1 : { queued: 2, refunding: 3 }[o.status]);
  return list().filter((o) => !final(o) && rank(o)).sort((a, b) => rank(a) - rank(b)).slice(0, MAX_STREAMS).map((o) => o.id);
}

// arrange opens and ends streams.
function arrange() {
  const ids = wanted();
  for (const [id, abort] of streams) {
    if (!ids.includes(id)) {
      streams.delete(id);
      abort.abort();
    }
  }
  for (const id of ids) {
    if (streams.has(id)) continue;
    const abort = new AbortController();
    streams.set(id, abort);
    follow(`/orders/${id}/events`, {
      signal: abort.signal, lastID: lastIDs.get(id),
      onEvent: (event) => {
        if (event.id) lastIDs.set(id, event.id);
        put(JSON.parse(event.data));
      },
      done: () => final(order(id) ?? { status: "failed" }),
    }).finally(() => {
      if (streams.get(id) === abort) streams.delete(id); // the looks below go on
    });
  }
}

// look asks for what no stream tells: orders beyond the two, payments that were refused, orders that should be closed.
async function look(failures = 0, turn = 0) {
  if (!document.hidden && session.user()) {
    for (const [id, { asked }] of busy) if (asked) await unpaid(id);
    const unwatched = list().filter((o) => !final(o) && !streams.has(o.id) && (!quiet(o) || turn % QUIET === 0));
    if (state === "failed" || unwatched.length > 0) await load();
    for (const o of unwatched) if (o.status === "queued") await fetchOne(o.id).catch(() => {});
  }
  failures = problem ? failures + 1 : 0;
  setTimeout(look, LOOK + backoff(failures, 500, 20_000), failures, turn + 1);
}

// start begins with the session's orders, and follows it.
export function start() {
  const begin = (user) => {
    orders.clear();
    busy.clear();
    lost.clear();
    lastIDs.clear();
    [state, problem, cursor] = ["none", null, null];
    arrange();
    changes.tell();
    if (user) load();
  };
  session.on(begin);
  if (session.user()) begin(session.user());
  document.addEventListener("visibilitychange", () => {
    arrange();
    if (!document.hidden) load();
  });
  channel?.addEventListener("message", ({ data }) => {
    if (data.user === session.user()?.id && !document.hidden) load();
  });
  look();
}

// timeLeft is how long an order may stay unpaid, in milliseconds.
export const timeLeft = (o) => Date.parse(o.expires_at) - clock.now();
