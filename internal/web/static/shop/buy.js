// A purchase, from the press to the order. One press is one intent with one Idempotency-Key; while it is under way
// further presses do nothing, and whatever gets in between (a lost connection, a server with too much to do), the same
// key is sent again, so that an intent can become one order at most.

import { newKey, postMine } from "../lib/api.js";
import { backoff, sleep, topic } from "../lib/events.js";
import { login } from "../lib/login.js";
import { session } from "../lib/session.js";
import * as mine from "./mine.js";
import * as sales from "./sales.js";

const FIRST = 600;
const MOST = 8_000;
const TRIES = 20; // some two minutes
const PATIENCE = 8_000;
const LONG = 180_000; // after so long a press has been forgotten: nothing is bought any more without another
const SPREAD = 2_000; // a server that has too much to do has told thousands to come back after the same second
const EARLY = 5; // tries while the server's clock has not reached the beginning

// Codes after which the same request is worth repeating. "internal" is among them because its outcome is not known.
const again = ["network", "rate_limited", "overloaded", "unavailable", "order_in_progress", "internal"];

const purchases = new Map();
const changes = topic();

export const onChange = changes.on;

// purchase is what is going on with a voucher: {is}, which is
//   idle     nothing
//   buying   the server was asked
//   waiting  it could not answer (`why`): asked again by itself `at`, by performance.now()
//   queued   accepted; `order` tells what becomes of it
//   bought   there is an order: `order`; `already` says that it was there before
//   refused  it will not be, for `problem`, heard at `since` by performance.now(); `open` says that the outcome is unknown: the next press asks again
export const purchase = (voucherID) => purchases.get(voucherID)?.state ?? { is: "idle" };

// press buys a unit. It returns when the outcome is known, or known to be unknown.
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
    if (p.user !== session.user()?.id) purchases.delete(voucherID); // the next visitor knows nothing of it
    changes.tell(voucherID);
  }
}

async function run(voucherID, p) {
  const become = (state) => {
    p.state = state;
    changes.tell(voucherID);
  };
  let pressed = Date.now(); // goes on while the device sleeps
  const late = () => Date.now() - pressed > LONG;
  const user = (p.user = await buyer(become, late));
  if (!user) return;
  if (late()) pressed = Date.now(); // he has just logged in
  let early = 0;
  for (let failures = 0; session.user()?.id === user; ) {
    become({ is: "buying", tries: failures });
    try {
      const answer = await postMine(`/vouchers/${voucherID}/orders`, { as: user, key: keys.of(user, voucherID), patience: PATIENCE });
      keys.forget(user, voucherID);
      if (session.user()?.id === user) accepted(voucherID, answer, become);
      return;
    } catch (problem) {
      if (problem.code === "other_user") return;
      if (problem.code === "unauthenticated") {
        become({ is: "idle" });
        if (!(await login())) return;
        pressed = Date.now();
        continue;
      }
      if (problem.code === "duplicate_order") {
        keys.forget(user, voucherID);
        if (session.user()?.id !== user) return;
        become({ is: "bought", order: problem.orderId, already: true });
        mine.fetchOne(problem.orderId).catch(() => {});
        return;
      }
      const repeat = again.includes(problem.code);
      if (!repeat) keys.forget(user, voucherID); // a refusal is remembered under its key
      if (problem.code === "sale_not_started" && early++ < EARLY) {
        await sleep(150 + Math.random() * 150); // our idea of its clock is a little fast
        continue;
      }
      if (!repeat || ++failures > TRIES) {
        refuse(voucherID, problem, become, repeat);
        return;
      }
      await wait(problem, failures, become);
      if (late()) {
        refuse(voucherID, problem, become, true);
        return;
      }
    }
  }
}

// buyer is who buys: whose session it is, though it may not have been taken up yet, or who logs in now; else undefined.
async function buyer(become, late) {
  for (let failures = 0; !session.user(); ) {
    if (session.pending()) become({ is: "buying", tries: failures });
    try {
      await session.token();
    } catch (problem) {
      if (problem.status === 401) {
        become({ is: "idle" });
        if (!(await login())) return undefined;
        continue;
      }
      if (again.includes(problem.code) && ++failures <= TRIES) await wait(problem, failures, become);
      else failures = Infinity;
      if (failures === Infinity || late()) {
        become({ is: "refused", problem, since: performance.now() });
        return undefined;
      }
    }
  }
  return session.user().id;
}

// keys are those of the intents whose outcome is open, by user and voucher. They outlive a reload, so that the next press
// still means the same purchase.
const keys = {
  known: new Map(),
  of(user, voucherID) {
    const name = `seckill.intent.${user}.${voucherID}`;
    let key = this.known.get(name);
    try {
      key ??= sessionStorage.getItem(name) ?? newKey();
      sessionStorage.setItem(name, key);
    } catch {
      key ??= newKey(); // without storage it lives as long as the page
    }
    this.known.set(name, key);
    return key;
  },
  forget(user, voucherID) {
    const name = `seckill.intent.${user}.${voucherID}`;
    this.known.delete(name);
    try {
      sessionStorage.removeItem(name);
    } catch {
      // it was not there
    }
  },
};

function refuse(voucherID, problem, become, open = false) {
  if (problem.code === "sold_out") sales.soldOut(voucherID);
  become({ is: "refused", problem, open, since: performance.now() });
}

// wait pauses before the next try: as long as the server wants, and some more, for everybody was told the same.
async function wait(problem, failures, become) {
  const pause = problem.retryAfter + backoff(failures - 1, FIRST, MOST) + (problem.status === 503 ? Math.random() * SPREAD : 0);
  become({ is: "waiting", why: problem, at: performance.now() + pause });
  const wake = new AbortController();
  const up = () => wake.abort();
  if (problem.code === "network") addEventListener("online", up, { once: true });
  const end = session.on(up); // it is not for the next visitor
  await sleep(pause, wake.signal);
  end();
  removeEventListener("online", up);
}

function accepted(voucherID, answer, become) {
  if (answer.status !== "queued") {
    mine.put(answer);
    become({ is: "bought", order: answer.id });
    return;
  }
  const now = new Date().toISOString();
  mine.put({
    id: answer.order_id, voucher_id: voucherID, user_id: session.user()?.id, status: "queued", created_at: now, expires_at: now,
  });
  become({ is: "queued", order: answer.order_id });
}

// start follows the orders that are queued, and forgets everything when somebody else is logged in.
export function start() {
  mine.onChange((order) => {
    if (!order || order.status === "queued") return;
    const p = purchases.get(order.voucher_id);
    if (p?.state.order !== order.id) return;
    if (order.status === "failed") refuse(order.voucher_id, { code: order.reason || "internal" }, (state) => (p.state = state));
    else if (!mine.active(order)) p.state = { is: "idle" };
    else p.state = { ...p.state, is: "bought" };
    changes.tell(order.voucher_id);
  });
  session.on((user) => {
    for (const [id, p] of purchases) {
      if (p.running || p.user === user?.id) continue;
      purchases.delete(id);
      changes.tell(id);
    }
  });
}
