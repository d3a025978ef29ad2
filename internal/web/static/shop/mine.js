// The visitor's orders and the actions running on them: one store for all views of this tab. Other tabs are notified of
// changes.
//
// An order with a pending change is watched through an event stream. Browsers allow six connections per server for all
// tabs, so a tab opens at most two streams, none while it is hidden, and polls the remaining orders.

import * as clock from "../lib/clock.js";
import { getMine, newKey, postMine } from "../lib/api.js";
import { backoff, topic } from "../lib/events.js";
import { session } from "../lib/session.js";
import { forTab } from "../lib/storage.js";
import { follow } from "../lib/stream.js";
import { channelOf } from "../lib/tabs.js";

const MAX_STREAMS = 2;
const POLL = 5_000; // ms
const IDLE_POLLS = 4; // idle orders may stay unchanged for months: they are read with every IDLE_POLLS-th poll
const LOST = 5_000; // ms; a queued order may be missing this long while it moves from the queue to the database
const REVIVAL = 3_600_000; // ms; staff can undo a redemption as long
const PAYING = 20_000; // ms; a payment that takes longer is shown as not running
const CHECKOUT = "seckill.checkout"; // the order that is being paid on the page of the provider

// Statuses in the order in which they are reached. A status never goes back, so a stale answer is ignored. Only a failed
// order continues when an operator repeats it, which its buyer sees once it is stored, and one that was redeemed by mistake is
// paid again.
const progress = {
  queued: 0, pending_payment: 1, paid: 2, redeemed: 3, refunding: 3, cancelled: 4, refunded: 4, failed: 4,
};

// final reports whether an order will not change any more, active whether it holds a unit of the sale.
const final = (order) => ["redeemed", "cancelled", "refunded", "failed"].includes(order.status);
export const active = (order) => !["cancelled", "refunded", "failed"].includes(order.status);

// expired reports whether a cancelled order was not paid in time.
export const expired = (order) => order.status === "cancelled" && Date.parse(order.cancelled_at) >= Date.parse(order.expires_at);

// revivable reports whether an order has failed, or was redeemed, so recently that staff may take that back.
const revivable = (o) => ["failed", "redeemed"].includes(o.status) && clock.now() - Date.parse(o.redeemed_at ?? o.created_at) < REVIVAL;

// idle reports whether an order changes only if its owner acts.
const idle = (o) => revivable(o) || o.status === "paid" || (o.status === "pending_payment" && timeLeft(o) > 0);

const orders = new Map();
const missing = new Map(); // by order: the time since which the server does not find it
const busy = new Map(); // by order: {action, key, problem, since, submitted}
const streams = new Map();
const changes = topic();
const channel = channelOf("seckill.orders");
let state = "none"; // none, loading, loaded, failed
let problem = null;

// onChange subscribes to changes; the listener receives the orders that were stored, if that is the reason.
export const onChange = changes.on;
export const loadState = () => ({ state, problem });
export const order = (id) => orders.get(id);
export const doing = (id) => busy.get(id) ?? {};

// list returns all orders, newest first. Ids grow with time and exceed the range of exact numbers.
export function list() {
  return [...orders.values()].sort((a, b) => b.id.length - a.id.length || (b.id < a.id ? -1 : 1));
}

// holding returns the visitor's active orders of a voucher.
export const holding = (voucherID) => list().filter((o) => o.voucher_id === voucherID && active(o));

// put stores an order unless a later status is known. Orders of another user are ignored: an answer may arrive after a
// logout. A status that the page has `guessed` is replaced by any answer of the server.
export function put(order) {
  const before = orders.get(order.id)?.status;
  if (!keep(order)) return;
  if (before !== order.status) channel?.postMessage({ user: order.user_id });
  changes.emit([order]);
  updateStreams();
}

// keep is put without telling the page. It returns whether the order is stored.
function keep(order) {
  if (order.user_id !== session.user()?.id) return false;
  let known = orders.get(order.id);
  if (known?.guessed) known = { status: known.status };
  else if (known && progress[known.status] > progress[order.status] && !takenBack(known.status, order.status)) return false;
  orders.set(order.id, { ...known, ...order });
  if (known && known.status !== order.status) busy.delete(order.id); // the action on it has ended
  if (!known && forTab.get(CHECKOUT) === order.id) comeBack(order);
  return true;
}

// comeBack waits for what the provider reports about a payment, unless the visitor came by a button of the browser, perhaps without
// having paid.
function comeBack({ id, status }) {
  forTab.set(CHECKOUT, null);
  if (status !== "pending_payment") return;
  const sent = performance.getEntriesByType("navigation")[0]?.type === "navigate";
  busy.set(id, { action: "pay", submitted: true, since: sent ? performance.now() : -PAYING });
  checkPayment(id);
}

// takenBack reports whether staff has repeated a failed order or undone a redemption. A late answer can look the same: the stream
// of the order or the next poll corrects that.
const takenBack = (from, to) => (from === "failed" && to !== "queued") || (from === "redeemed" && to === "paid");

// load reads the visitor's orders from the server; `more` appends the next page.
let cursor = null;
export const hasMore = () => cursor !== null;
export async function load(more = false) {
  const user = session.user()?.id;
  if (!user) return;
  if (state === "none" || state === "failed") state = "loading";
  let found = [];
  try {
    const page = await getMine(`/orders?limit=50${more && cursor ? `&cursor=${cursor}` : ""}`);
    if (session.user()?.id !== user) return;
    if (more || state === "loading") cursor = page.next_cursor;
    found = page.items.filter(keep);
    [state, problem] = ["loaded", null];
  } catch (err) {
    if (session.user()?.id !== user) return;
    problem = err;
    if (state === "loading") state = "failed";
  }
  changes.emit(found); // once, because each change renders all orders of the page
  updateStreams();
}

// fetchOne reads one order, which need not be on a loaded page. A queued order that stays missing for LOST is marked
// failed: the queue has lost it.
export async function fetchOne(id) {
  try {
    put(await getMine(`/orders/${encodeURIComponent(id)}`));
    missing.delete(id);
  } catch (err) {
    const known = order(id);
    if (err.code !== "not_found" || known?.status !== "queued") throw err;
    if (!missing.has(id)) missing.set(id, performance.now());
    if (performance.now() - missing.get(id) >= LOST) put({ ...known, status: "failed", reason: "internal", guessed: true });
  }
  return order(id);
}

// act pays, cancels or refunds an order. It does nothing while another action on the order is running. Repeating an
// action whose answer was lost reuses its Idempotency-Key.
export async function act(id, action) {
  const before = doing(id);
  if (before.action && !before.problem) return;
  const key = before.action === action ? before.key : newKey();
  const user = session.user()?.id;
  busy.set(id, { action, key, since: performance.now() });
  changes.emit();
  try {
    const answer = await postMine(`/orders/${id}/${action}`, { as: user, key });
    if (answer.payment?.checkout_url) {
      forTab.set(CHECKOUT, id);
      location.assign(answer.payment.checkout_url); // the page of the payment provider
    }
    put(action === "pay" ? answer.order : answer);
    if (answer.order?.status === "paid") await fetchOne(id).catch(() => {}); // it has a redeem code
    if (session.user()?.id !== user) return;
    if (action === "pay" && order(id)?.status === "pending_payment") {
      busy.set(id, { action, key, submitted: true, since: performance.now() }); // until the provider confirms
      updateStreams();
    } else busy.delete(id);
  } catch (err) {
    if (session.user()?.id !== user) return;
    if (err.code === "invalid_state") {
      busy.delete(id); // the status has changed meanwhile: show the current one
      await fetchOne(id).catch(() => {});
      if (order(id)?.status === "pending_payment") busy.set(id, { action, problem: err });
    } else busy.set(id, { action, key, problem: err });
  }
  changes.emit();
}

// checkPayment reads the payments of an order that is being paid, and reports a payment that the provider has rejected.
async function checkPayment(id) {
  const was = doing(id);
  try {
    const payments = (await getMine(`/orders/${id}/payments`)).items;
    if (doing(id) !== was || order(id)?.status !== "pending_payment") return;
    if (payments.length > 0 && payments.every((p) => p.status === "failed")) {
      busy.set(id, { action: "pay", problem: { code: "payment_failed" } });
      changes.emit();
    } else if (performance.now() - was.since > PAYING) busy.delete(id), changes.emit();
  } catch {
    // repeated with the next poll
  }
}

const lastIDs = new Map();
let heldUntil = 0; // performance.now(); until then a proxy holds streams back, as far as known, and all orders are polled
let pinned = ""; // the order that the page shows alone

// pin sets the order that the page shows alone; "" for none.
export function pin(id) {
  pinned = id;
  updateStreams();
}

// awaited reports whether the visitor is looking at an order or has just paid for it.
const awaited = (o) => o.id === pinned || Boolean(doing(o.id).submitted);

// watched returns the ids of the orders to stream: those whose status is expected to change soon.
function watched() {
  if (document.hidden || !session.user() || performance.now() < heldUntil) return [];
  const rank = (o) => (awaited(o) ? 1 : { queued: 2, refunding: 3 }[o.status]);
  return list().filter((o) => !final(o) && rank(o)).sort((a, b) => rank(a) - rank(b)).slice(0, MAX_STREAMS).map((o) => o.id);
}

// updateStreams opens and closes streams as needed.
function updateStreams() {
  const ids = watched();
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
    }).then((held) => {
      if (!held) return;
      heldUntil = performance.now() + held;
      updateStreams();
      fetchOne(id).catch(() => {}); // repeated with the next poll
    }).finally(() => {
      if (streams.get(id) === abort) streams.delete(id); // polling continues
    });
  }
}

// poll reads what no stream reports: orders beyond the two streams, rejected payments, orders that are due to be closed.
async function poll(failures = 0, turn = 0) {
  if (!document.hidden && session.user()) {
    for (const [id, { submitted }] of busy) if (submitted) await checkPayment(id);
    const unwatched = list().filter((o) => (!final(o) || revivable(o)) && !streams.has(o.id) && (!idle(o) || awaited(o) || turn % IDLE_POLLS === 0));
    if (state === "failed" || unwatched.some((o) => !awaited(o))) await load();
    for (const o of unwatched) if (["queued", "failed"].includes(o.status) || awaited(o)) await fetchOne(o.id).catch(() => {});
  }
  failures = problem ? failures + 1 : 0;
  setTimeout(poll, POLL + backoff(failures, 500, 20_000), failures, turn + 1);
}

// start loads the orders of the session, and again at each change of the user.
export function start() {
  const begin = (user) => {
    orders.clear();
    busy.clear();
    missing.clear();
    lastIDs.clear();
    [state, problem, cursor] = ["none", null, null];
    updateStreams();
    changes.emit();
    if (user) load();
  };
  session.on(begin);
  if (session.user()) begin(session.user());
  document.addEventListener("visibilitychange", () => {
    updateStreams();
    if (!document.hidden) load();
  });
  channel?.addEventListener("message", ({ data }) => {
    if (data.user === session.user()?.id && !document.hidden) load();
  });
  poll();
}

// timeLeft returns the time in ms until an unpaid order expires.
export const timeLeft = (o) => Date.parse(o.expires_at) - clock.now();
