// What is to be done once, however often it is pressed and whatever the network does to it.

import { newKey, postMine } from "./api.js";
import { attr } from "./dom.js";

// Codes after which nobody knows whether it was done.
const unknown = ["network", "internal", "unavailable", "overloaded", "rate_limited", "order_in_progress"];

// intents returns a way to POST that names each intent by an Idempotency-Key. The same thing asked for again gets the key
// that it had for as long as its outcome is unknown.
export function intents() {
  let open = null;
  return async (path, body) => {
    const what = JSON.stringify([path, body]);
    if (open?.what !== what) open = { what, key: newKey() };
    const mine = open;
    const forget = () => {
      if (open === mine) open = null;
    };
    try {
      const answer = await postMine(path, { key: mine.key, body });
      forget();
      return answer;
    } catch (problem) {
      if (!unknown.includes(problem.code)) forget();
      throw problem;
    }
  };
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
