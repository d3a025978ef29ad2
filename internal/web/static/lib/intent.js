// What is to be done once, however often it is pressed and whatever the network does to it.

import { newKey, postMine } from "./api.js";
import { attr } from "./dom.js";
import { session } from "./session.js";

// Codes after which nobody knows whether it was done; and those of answers that are given before the key is looked at, and
// so tell nothing of what was asked under it before.
const unknown = ["network", "internal", "unavailable", "order_in_progress"];
const early = ["unauthenticated", "token_expired", "forbidden", "rate_limited", "overloaded"];

const STORED = "seckill.open";
const LASTS = 23 * 3_600_000; // the server remembers a key for a day

// stored is what was asked for and has no answer yet, {body, key, user, at} by its path.
const stored = load();

function load() {
  try {
    return JSON.parse(sessionStorage.getItem(STORED)) ?? {};
  } catch {
    return {};
  }
}

function save() {
  try {
    sessionStorage.setItem(STORED, JSON.stringify(stored));
  } catch {
    // without storage it lasts as long as the page
  }
}

// intents returns a way to POST that names each intent by an Idempotency-Key. The same thing asked for again gets the key
// that it had for as long as its outcome is unknown: then the Problem is `open`, and post.open(path) is the body.
// post.same says whether this is that thing. With `lasting` a reload of the page is no end of it.
export function intents({ lasting = false } = {}) {
  const all = lasting ? stored : {};
  const keep = (path, intent) => {
    all[path] = intent;
    if (lasting) save();
  };
  const openAt = (path) => (all[path]?.user === session.user()?.id ? all[path] : undefined); // a key belongs to its user
  const same = (path, body) => {
    const open = openAt(path);
    return open !== undefined && Date.now() - open.at < LASTS && JSON.stringify(open.body) === JSON.stringify(body);
  };
  const post = async (path, body) => {
    const again = same(path, body);
    const mine = again ? openAt(path) : { body, key: newKey(), user: session.user()?.id, at: Date.now() };
    keep(path, mine);
    const settle = () => {
      if (all[path] === mine) keep(path, undefined);
    };
    try {
      const answer = await postMine(path, { key: mine.key, body });
      settle();
      return answer;
    } catch (problem) {
      problem.open = unknown.includes(problem.code) || (again && early.includes(problem.code));
      if (!problem.open) settle();
      throw problem;
    }
  };
  post.open = (path) => openAt(path)?.body;
  post.same = same;
  return post;
}

// once makes a listener that works while `button` says so; what is pressed meanwhile does nothing. Problems are shown by
// `trouble`, which has clear() and show(problem).
export function once(button, trouble, work) {
  let working = false;
  return async (event) => {
    event?.preventDefault();
    if (working || button.getAttribute("aria-disabled") === "true") return;
    working = true;
    trouble.clear();
    attr(button, "aria-disabled", "true");
    attr(button, "data-busy", true);
    try {
      await work();
    } catch (problem) {
      if (!problem.code) throw problem;
      trouble.show(problem);
    } finally {
      working = false;
      attr(button, "aria-disabled", null);
      attr(button, "data-busy", null);
    }
  };
}
