// A button that makes a list longer.

import { attr, h, show } from "./dom.js";
import { singleFlight } from "./intent.js";

const elsewhere = { clear() {}, show() {} }; // the page shows its problems itself

// moreButton returns {element, update}. The button runs work(). update(visible, next) shows or hides it. If it hides with the
// focus, that goes on to the first element that it has added, which next() returns if there is one.
export function moreButton(name, label, work, out = elsewhere) {
  const element = h("button", { type: "button", class: "quiet", "data-do": name }, label);
  element.addEventListener("click", singleFlight(element, out, work));
  return {
    element,
    update(visible, next) {
      const held = document.activeElement === element;
      show(element, visible);
      if (!held || visible) return;
      const first = next();
      const link = first?.querySelector("a");
      if (first && !link) attr(first, "tabindex", -1);
      (link ?? first)?.focus();
    },
  };
}
