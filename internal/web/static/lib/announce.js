// What has happened, for those who hear the page. There is one region: several would talk at once.

import { text } from "./dom.js";

// announce says a sentence when the reader has a pause.
export function announce(sentence) {
  if (sentence) text(document.getElementById("live"), sentence);
}
