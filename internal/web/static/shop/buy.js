// A purchase, from the press to the order. One press is one intent with one Idempotency-Key; while it is under way
// further presses do nothing, and whatever gets in between (a lost connection, a server with too much to do), the same
// key is sent again, so that an intent can become one order at most.

import { newKey, postMine } from "../lib/api.js";
import { backoff, sleep, topic } from "../lib/events.js";
import { login } from "../lib/login.js";
import { session } from "../lib/session.js";
import * as mine from "./mine.js";

const FIRST = 600;
const MOST = 8_000;
const TRIES = 20; // some two minutes
const PATIENCE = 8_000;
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
//   refused  it will not be, for `problem`; `open` says that the outcome is unknown: the next press asks again
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
    changes.tell(voucherID);
  }
}

async function run(voucherID, p) {
  const become = (state) => {
    p.state = state;
    changes.tell(voucherID);
  };
  if (!session.user() && !(await login())) return;
  const user = session.user()?.id;
  if (p.user !== user) p.key = null; // a key belongs to its user
  p.user = user;
  p.key ??= newKey();
  let early = 0;
  for (let failures = 0; ; ) {
    become({ is: "buying", tries: failures });
    try {
      const answer = await postMine(`/vouchers/${voucherID}/orders`, { key: p.key, patience: PATIENCE });
      p.key = null;
      accepted(voucherID, answer, become);
      return;
    } catch (problem) {
      if (problem.code === "unauthenticated") {
        become({ is: "idle" });
        if (!(await login()) || session.user()?.id !== user) return;
        continue;
      }
      if (problem.code === "duplicate_order") {
        p.key = null;
        become({ is: "bought", order: problem.orderId, already: true });
        mine.fetchOne(problem.orderId).catch(() => {});
        return;
      }
      if (problem.code === "sale_not_started" && early++ < EARLY) {
        await sleep(150 + Math.random() * 150); // our idea of its clock is a little fast
        continue;
      }
      const repeat = again.includes(problem.code);
      if (!repeat || ++failures > TRIES) {
        if (!repeat) p.key = null;
        become({ is: "refused", problem, open: repeat });
        return;
      }
      await wait(problem, failures, become);
    }
  }
}

// wait pauses before the next try: as long as the server wants, and some more, for everybody was told the same.
async function wait(problem, failures, become) {
  const pause = problem.retryAfter + backoff(failures - 1, FIRST, MOST);
  become({ is: "waiting", why: problem, at: performance.now() + pause });
  const wake = new AbortController();
  const up = () => wake.abort();
  if (problem.code === "network") addEventListener("online", up, { once: true });
  await sleep(pause, wake.signal);
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
    if (order.status === "failed") p.state = { is: "refused", problem: { code: order.reason || "internal" } };
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
