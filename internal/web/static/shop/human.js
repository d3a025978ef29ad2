// Proofs of work for the sales that demand one (entry.challenge is "on"), solved in the background before the buyer
// presses the button. There is nothing to operate: the card shows and announces the state.

import { topic } from "../lib/events.js";
import { session } from "../lib/session.js";
import * as proof from "../proof/prove.js";

// A solution is valid for 100 to 120 s. It is solved 45 to 90 s before the start, at random, so that pages do not
// request challenges together and no solution expires at the start.
const AHEAD = 45_000 + 45_000 * Math.random();
const AFTER = 600_000; // ms after the start; later the check waits until the button is pressed
const AGAIN = 1_000; // ms; between looks at the solution's age
const RETRY = 5_000;

const proofs = new Map(); // by sale: {is, next, running}
const changes = topic();

export const onChange = changes.on;

export const demanded = (v) => v?.entry?.challenge === "on";

// stateOf returns the state of a sale's proof: "working", "ready", "failed", or "" if there is none.
export const stateOf = (id) => proofs.get(id)?.is ?? "";

// prepare solves the challenge of a sale with passes, or another one if the solution is about to expire. It does nothing
// while that is not necessary. Pages call it every second. (In a waiting room, buyers enter long before the start.)
export function prepare(v, state, now) {
  const soon = state === "upcoming" && Date.parse(v.begin_at) - now < AHEAD;
  const hurried = state === "on_sale" && now - Date.parse(v.begin_at) < AFTER;
  if (!demanded(v) || v.entry.mode !== "pass" || !session.user() || !(soon || hurried)) {
    proofs.delete(v.id);
    return;
  }
  let p = proofs.get(v.id);
  if (!p) proofs.set(v.id, (p = { is: "working", next: 0 }));
  if (p.running || performance.now() < p.next) return;
  p.running = true;
  const settle = (is) => {
    p.running = false;
    p.next = performance.now() + (is === "failed" ? RETRY * (1 + Math.random()) : AGAIN);
    if (p.is === is) return;
    p.is = is;
    changes.emit();
  };
  solution(v.id).then(() => settle("ready"), () => settle("failed"));
}

// solution returns a solution for POST /vouchers/{id}/entry: see proveHuman.
export const solution = (id, challenge) => proof.proveHuman(id, challenge ?? undefined);

// forget drops a solution that was used up or refused.
export function forget(id) {
  proofs.delete(id);
  proof.forget(id);
}

session.on(() => proofs.clear());
