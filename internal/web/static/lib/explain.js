// Error messages for visitors.

import { text } from "./dom.js";
import { has, t } from "./i18n.js";

// explain returns a sentence for a Problem. An unknown code is explained by its status.
export function explain(problem) {
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
