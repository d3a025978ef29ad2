// Announcements for screen readers. The page has a single live region: several would speak at the same time.

import { h } from "./dom.js";

const KEPT = 10;

// announce adds a sentence to the page's polite live region. An empty sentence changes nothing. The last sentences stay:
// one that is replaced at once is not read, and the state of another sale may change in the moment of a purchase.
export function announce(sentence) {
  if (!sentence) return;
  const live = document.getElementById("live");
  live.append(h("p", {}, sentence));
  if (live.childElementCount > KEPT) live.firstElementChild.remove();
}
