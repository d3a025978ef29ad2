// Solutions of challenges, for sales that demand one (entry.challenge is "on"). The worker is loaded with the first one.

import { postMine, Problem } from "../lib/api.js";
import * as clock from "../lib/clock.js";
import { session } from "../lib/session.js";

const MARGIN = 10_000; // ms; a solution is not handed out when it expires sooner
const solutions = new Map(); // by user and voucher: {solution: Promise, until}

const name = (voucherID) => `${session.user()?.id} ${voucherID}`;

// proveHuman returns a solution for POST /vouchers/{id}/entry, as a promise. It solves a challenge unless it has a
// solution that is still valid; concurrent calls share one. `challenge` is one that the server has sent already. The
// solution is undefined if the server demands none. Problems: those of the request, and "challenge_required" if this browser cannot
// solve it.
export function proveHuman(voucherID, challenge) {
  const key = name(voucherID);
  const known = solutions.get(key);
  if (known && clock.now() < known.until) return known.solution;
  const fresh = { until: Infinity };
  fresh.solution = prove(voucherID, challenge).then(
    ({ solution, until }) => {
      fresh.until = until - MARGIN;
      return solution;
    },
    (problem) => {
      if (solutions.get(key) === fresh) solutions.delete(key);
      throw problem;
    });
  solutions.set(key, fresh);
  return fresh.solution;
}

// forget drops the solution for a sale: the server has used it up or refused it.
export const forget = (voucherID) => solutions.delete(name(voucherID));

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

// The page's policy allows this script as a worker, and no other URL.
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
