// What an error means for the visitor.

import { has, t } from "./i18n.js";

// explain is a sentence about a Problem. A code that is not known counts as its status.
export function explain(problem) {
  const key = `error.${problem.code}`;
  if (has(key)) return t(key);
  return t(problem.status >= 500 ? "error.internal" : "error.other");
}

// reference is what to quote to the people who run the server.
export function reference(problem) {
  return problem.requestId ? t("error.reference", { id: problem.requestId }) : "";
}
