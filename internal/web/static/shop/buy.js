// Purchases, from pressing the button to the order. One press is one intent with one Idempotency-Key. Further presses are
// ignored while it is running, and every retry (lost connection, overloaded server) uses the same key, so an intent leads
// to one order at most.

import { newKey, postMine } from "../lib/api.js";
import { backoff, sleep, topic } from "../lib/events.js";
import { login } from "../lib/login.js";
import { session } from "../lib/session.js";
import { forTab } from "../lib/storage.js";
import * as human from "./human.js";
import * as mine from "./mine.js";
import * as rooms from "./rooms.js";
import * as sales from "./sales.js";

const FIRST = 600; // ms
const MOST = 8_000;
const RETRIES = 20; // about two minutes
const TIMEOUT = 8_000;
const EXPIRY = 180_000; // a press older than this buys nothing: the visitor may have forgotten it
const SPREAD = 2_000; // an overloaded server sends the same Retry-After to thousands of clients: spread their retries
const EARLY_RETRIES = 5; // while the server's clock has not reached the start of the sale
const PROOFS = 3; // solutions of challenges that one press sends

// Codes after which the same request is repeated. "internal" is one of them because its outcome is unknown.
const retryable = ["network", "rate_limited", "overloaded", "unavailable", "order_in_progress", "internal"];

const purchases = new Map();
const changes = topic();

export const onChange = changes.on;

// purchase returns the state of a voucher's purchase as {is, ...}:
//   idle     no purchase
//   buying   a request is running, with `joining` for a place in the waiting room; `proving` is set while a challenge is
//            being solved instead
//   waiting  a request failed with `why` and is repeated at `at` (performance.now())
//   queued   accepted; `order` is the id of the queued order
//   bought   `order` is the id of the order; `already` is set if it existed before
//   refused  `problem` is the reason, `since` its time (performance.now()); `open` is set if the outcome is unknown and
//            the next press repeats the request
export const purchase = (voucherID) => purchases.get(voucherID)?.state ?? { is: "idle" };

// press buys one unit, or joins the waiting room of a sale that has one and where it is not the visitor's turn. It returns when the outcome is known, or unknown with all retries used up.
export async function press(voucherID) {
  let p = purchases.get(voucherID);
  if (p?.running) return;
  if (!p) purchases.set(voucherID, (p = { state: { is: "idle" } }));
  p.running = true;
  try {
    await run(voucherID, p);
  } finally {
    p.running = false;
    if (["buying", "waiting"].includes(p.state.is)) p.state = { is: "idle" };
    if (p.user !== session.user()?.id) purchases.delete(voucherID); // not visible to the next user
    changes.emit(voucherID);
  }
}

async function run(voucherID, p) {
  const setState = (state) => {
    p.state = state;
    changes.emit(voucherID);
  };
  let pressed = Date.now(); // unlike performance.now() it advances while the device sleeps
  const expired = () => Date.now() - pressed > EXPIRY;
  const user = (p.user = await buyer(setState, expired));
  if (!user) return;
  if (expired()) pressed = Date.now(); // the login took long, but it has just ended
  const intent = `seckill.intent.${user}.${voucherID}`;
  let early = 0;
  // A press that repeats an earlier one may have its order already, which the stock then includes.
  const before = forTab.get(intent) === null ? sales.sale(voucherID)?.stock : undefined;
  const room = sales.sale(voucherID)?.entry?.mode === "room";
  let pass; // of a sale that needs one
  // A press that repeats an earlier one may have its order already, so it needs a pass only if the server says so.
  let enter = (room ? !rooms.place(voucherID).pass : sales.sale(voucherID)?.entry?.mode === "pass") && forTab.get(intent) === null;
  let renewed = false;
  let challenge = null; // sent by the server with its last answer
  let refusals = 0; // of solutions
  for (let failures = 0; session.user()?.id === user; ) {
    setState({ is: "buying", joining: room && enter });
    try {
      if (enter) {
        let body;
        if (challenge || human.demanded(sales.sale(voucherID))) {
          setState({ is: "buying", joining: room, proving: true });
          body = { solution: await human.solution(voucherID, challenge) };
          challenge = null;
          setState({ is: "buying", joining: room });
        }
        const admission = await postMine(`/vouchers/${voucherID}/entry`, { as: user, body, timeout: TIMEOUT });
        human.forget(voucherID); // it works once
        if (room) {
          if (session.user()?.id === user) rooms.begin(voucherID, user, admission);
          return;
        }
        ({ pass } = admission);
      }
      enter = false;
      if (room) pass = rooms.place(voucherID).pass ?? pass;
      const headers = pass && { "X-Entry-Pass": pass };
      const answer = await postMine(`/vouchers/${voucherID}/orders`, { as: user, key: keyUnder(intent), headers, timeout: TIMEOUT });
      forTab.set(intent, null);
      if (session.user()?.id === user) accepted(voucherID, answer, before, setState);
      return;
    } catch (problem) {
      if (problem.code === "other_user") return;
      if (problem.code === "unauthenticated") {
        setState({ is: "idle" });
        if (!(await login({ again: true }))) return;
        pressed = Date.now();
        continue;
      }
      if (problem.code === "duplicate_order") {
        forTab.set(intent, null);
        if (session.user()?.id !== user) return;
        rooms.done(voucherID);
        setState({ is: "bought", order: problem.orderId, already: true });
        mine.fetchOne(problem.orderId).catch(() => {});
        return;
      }
      if (problem.code === "entry_required" && !renewed) {
        renewed = true;
        enter = !room;
        if (enter || (await rooms.renew(voucherID))) continue;
      }
      if (problem.code === "challenge_required" && problem.challenge && ++refusals < PROOFS) {
        human.forget(voucherID);
        ({ challenge } = problem);
        continue;
      }
      // A longer pause, as after many cancellations, outlasts the press.
      const repeat = retryable.includes(problem.code) && problem.retryAfter < EXPIRY;
      if (!repeat) forTab.set(intent, null); // the server stores a rejection under its key
      if (problem.code === "sale_not_started" && early++ < EARLY_RETRIES) {
        await sleep(150 + Math.random() * 150); // the estimate of the server's clock is slightly fast
        continue;
      }
      if (!repeat || ++failures > RETRIES) {
        reject(voucherID, problem, setState, repeat);
        return;
      }
      await pauseBeforeRetry(problem, failures, setState);
      renewed = false; // the pass may expire during the pause
      if (expired()) {
        reject(voucherID, problem, setState, true);
        return;
      }
    }
  }
}

// buyer returns the id of the buying user: of the current session, of one that is still being restored, or of a login made
// now. It returns undefined if there is none.
async function buyer(setState, expired) {
  for (let failures = 0; !session.user(); ) {
    if (session.pending()) setState({ is: "buying" });
    try {
      await session.token();
    } catch (problem) {
      if (problem.code === "unauthenticated") {
        setState({ is: "idle" });
        if (!(await login())) return undefined;
        continue;
      }
      if (retryable.includes(problem.code) && ++failures <= RETRIES) await pauseBeforeRetry(problem, failures, setState);
      else failures = Infinity;
      if (failures === Infinity || expired()) {
        setState({ is: "refused", problem, since: performance.now() });
        return undefined;
      }
    }
  }
  return session.user().id;
}

// keyUnder returns the Idempotency-Key of the intent under a name. It is kept across reloads until the outcome is known, so the
// next press repeats the same purchase.
function keyUnder(name) {
  const key = forTab.get(name) ?? newKey();
  forTab.set(name, key);
  return key;
}

function reject(voucherID, problem, setState, open = false) {
  if (problem.code === "sold_out") sales.soldOut(voucherID);
  setState({ is: "refused", problem, open, since: performance.now() });
}

// pauseBeforeRetry waits for the server's Retry-After plus a backoff with a random part. It ends early when the network
// is back or the user changes.
async function pauseBeforeRetry(problem, failures, setState) {
  const pause = problem.retryAfter + backoff(failures - 1, FIRST, MOST) + (problem.status === 503 ? Math.random() * SPREAD : 0);
  setState({ is: "waiting", why: problem, at: performance.now() + pause });
  const wake = new AbortController();
  const unsubscribe = session.on(() => wake.abort());
  await sleep(pause, wake.signal);
  unsubscribe();
}

function accepted(voucherID, answer, before, setState) {
  sales.bought(voucherID, before);
  if (answer.status !== "queued") {
    mine.put(answer);
    rooms.done(voucherID);
    setState({ is: "bought", order: answer.id });
    return;
  }
  const now = new Date().toISOString();
  mine.put({
    id: answer.order_id, voucher_id: voucherID, user_id: session.user()?.id, status: "queued", created_at: now, expires_at: now,
  });
  setState({ is: "queued", order: answer.order_id });
}

// start updates purchases as their orders change, and drops them when another user logs in.
export function start() {
  mine.onChange((orders = []) => orders.forEach(follow));
  session.on((user) => {
    for (const [id, p] of purchases) {
      if (p.running || p.user === user?.id) continue;
      purchases.delete(id);
      changes.emit(id);
    }
  });
}

function follow(order) {
  if (order.status === "queued") return;
  const p = purchases.get(order.voucher_id);
  if (p?.state.order !== order.id) return;
  if (order.status === "failed") reject(order.voucher_id, { code: order.reason || "internal" }, (state) => (p.state = state));
  else if (!mine.active(order)) p.state = { is: "idle" };
  else {
    rooms.done(order.voucher_id);
    p.state = { ...p.state, is: "bought" };
  }
  changes.emit(order.voucher_id);
}
