// Actions that take effect at most once, however often they are pressed and whatever happens on the network.

import { newKey, postMine } from "./api.js";
import { attr } from "./dom.js";
import { session } from "./session.js";
import { forTab } from "./storage.js";

// Problems after which the outcome of a request is unknown; and problems that are returned before the server reads the
// key, so they say nothing about an earlier request under the same key.
const unknown = ["network", "internal", "unavailable", "order_in_progress"];
const early = ["unauthenticated", "token_expired", "forbidden", "rate_limited", "overloaded"];

const STORED = "seckill.open";
const LIFETIME = 23 * 3_600_000; // ms; the server keeps a key for a day

// stored holds the unanswered requests of this tab by path, as {body, key, user, at}.
const stored = JSON.parse(forTab.get(STORED) ?? "{}");

// intents returns a function post(path, body) that sends each intent with an Idempotency-Key. While the outcome of a
// request is unknown, an equal request reuses its key; a Problem then has `open` set, post.open(path) returns the body of
// that request and post.same(path, body) reports whether a body equals it. `lasting` keeps this across page reloads.
export function intents({ lasting = false } = {}) {
  const all = lasting ? stored : {};
  const keep = (path, intent) => {
    all[path] = intent;
    if (lasting) forTab.set(STORED, JSON.stringify(stored));
  };
  const openAt = (path) => (all[path]?.user === session.user()?.id ? all[path] : undefined); // a key belongs to its user
  const same = (path, body) => {
    const open = openAt(path);
    return open !== undefined && Date.now() - open.at < LIFETIME && JSON.stringify(open.body) === JSON.stringify(body);
  };
  const post = async (path, body) => {
    const again = same(path, body);
    const mine = again ? openAt(path) : { body, key: newKey(), user: session.user()?.id, at: Date.now() };
    keep(path, mine);
    const close = () => {
      if (all[path] === mine) keep(path, undefined);
    };
    try {
      const answer = await postMine(path, { key: mine.key, body });
      close();
      return answer;
    } catch (problem) {
      problem.open = unknown.includes(problem.code) || (again && early.includes(problem.code));
      if (!problem.open) close();
      throw problem;
    }
  };
  post.open = (path) => openAt(path)?.body;
  post.same = same;
  return post;
}

// once is the click listener of a button that submits a form. The second press of a double click would submit what the first
// one has left.
export const once = (event) => {
  if (event.detail > 1) event.preventDefault();
};

// singleFlight returns an event listener that ignores events while its last call of work() is still running; the button
// shows that state. The second press of a double click could otherwise undo the first one. Problems are shown by `errorBox`,
// which has clear() and show(problem).
export function singleFlight(button, errorBox, work) {
  let working = false;
  return async (event) => {
    event?.preventDefault();
    if (working || event?.detail > 1 || button.getAttribute("aria-disabled") === "true") return;
    working = true;
    errorBox.clear();
    attr(button, "aria-disabled", "true");
    attr(button, "data-busy", true);
    try {
      await work();
    } catch (problem) {
      if (!problem.code) throw problem;
      errorBox.show(problem);
    } finally {
      working = false;
      attr(button, "aria-disabled", null);
      attr(button, "data-busy", null);
    }
  };
}
