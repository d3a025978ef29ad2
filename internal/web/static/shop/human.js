// Proofs of work for the sales that demand one (entry.challenge is "on"), solved in the background before the buyer
// presses the button. There is nothing to operate: the card shows and announces the state.

import { postMine, Problem } from "../lib/api.js";
import * as clock from "../lib/clock.js";
import { topic } from "../lib/events.js";
import { session } from "../lib/session.js";

// A solution is valid for 100 to 120 s. It is solved 45 to 90 s before the start, at random, so that pages do not
// request challenges together and no solution expires at the start.
const AHEAD = 45_000 + 45_000 * Math.random();
const AFTER = 600_000; // ms after the start; later the check waits until the button is pressed
const AGAIN = 1_000; // ms; between looks at the solution's age
const RETRY = 5_000;
const MARGIN = 10_000; // ms; a solution is not handed out when it expires sooner

const solutions = new Map(); // by sale: {solution: Promise, until}
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

// solution returns a solution for POST /vouchers/{id}/entry, as a promise. It solves a challenge unless it has a solution
// that is still valid; concurrent calls share one. `challenge` is one that the server has sent already. The solution is
// undefined if the server demands none. Problems: those of the request, and "challenge_required" if this browser cannot
// solve it.
export function solution(id, challenge) {
  const known = solutions.get(id);
  if (known && clock.now() < known.until) return known.solution;
  const fresh = { until: Infinity };
  fresh.solution = prove(id, challenge).then(
    ({ solution, until }) => {
      fresh.until = until - MARGIN;
      return solution;
    },
    (problem) => {
      if (solutions.get(id) === fresh) solutions.delete(id);
      throw problem;
    });
  solutions.set(id, fresh);
  return fresh.solution;
}

// forget drops a solution that was used up or refused.
export function forget(id) {
  proofs.delete(id);
  solutions.delete(id);
}

session.on(() => {
  proofs.clear();
  solutions.clear();
});

async function prove(voucherID, challenge) {
  challenge ??= await request(voucherID);
  if (!challenge) return { until: clock.now() + 60_000 };
  const solution = await solve(challenge.parameters);
  return { solution: btoa(JSON.stringify({ challenge, solution })), until: challenge.parameters.expiresAt * 1000 };
}

// request returns a new challenge, or undefined if the server demands none.
async function request(voucherID) {
  try {
    await postMine(`/vouchers/${voucherID}/entry`, { as: session.user()?.id });
  } catch (problem) {
    if (!problem.challenge) throw problem;
    return problem.challenge;
  }
  return undefined;
}

// The page's policy allows this script as a worker, and no other URL. It is loaded with the first challenge.
const url = new URL("../proof/worker.js", import.meta.url).href; // from here, and from the bundle of the storefront
const policy = globalThis.trustedTypes?.createPolicy("proof", { createScriptURL: () => url });

async function solve(parameters) {
  let worker;
  try {
    worker = new Worker(policy?.createScriptURL("") ?? url);
    return await new Promise((done, fail) => {
      worker.onmessage = ({ data }) => (data.error ? fail(data.error) : done(data));
      worker.onerror = fail;
      worker.postMessage(parameters);
    });
  } catch (err) {
    throw new Problem({ code: "challenge_required", detail: String(err) });
  } finally {
    worker?.terminate();
  }
}
