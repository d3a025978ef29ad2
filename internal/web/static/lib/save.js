// Files that the browser saves.

import { h } from "./dom.js";

// save has the browser save a file.
export function save(content, name) {
  const url = URL.createObjectURL(content);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser may still be reading it
}
