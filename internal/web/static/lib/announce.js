// Announcements for screen readers. The page has a single live region: several would speak at the same time.

import { text } from "./dom.js";

// announce puts a sentence into the page's polite live region. An empty sentence changes nothing.
export function announce(sentence) {
  if (sentence) text(document.getElementById("live"), sentence);
}
