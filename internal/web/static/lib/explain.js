// Error messages for visitors.

import { now } from "./clock.js";
import { text } from "./dom.js";
import { has, hour, t } from "./i18n.js";

const MOMENT = 60_000; // ms; nobody waits longer for a page

// explain returns a sentence for a Problem. An unknown code is explained by its status.
export function explain(problem) {
  if (problem.retryAfter > MOMENT) return t("error.wait", { at: hour(now() + problem.retryAfter, now()) });

  const key = `error.${problem.code}`;
  if (has(key)) return t(key);
  return t(problem.status >= 500 ? "error.internal" : "error.other");
}

// errorIn returns the errorBox of singleFlight for an element of one sentence.
export const errorIn = (element) => ({ clear: () => text(element, ""), show: (problem) => text(element, explain(problem)) });

// reference returns the request id that a visitor can quote to support; "" if there is none.
export function reference(problem) {
  return problem.requestId ? t("error.reference", { id: problem.requestId }) : "";
}
