// Element construction without markup. Text is inserted as text, so input of merchants and buyers can never become an
// element. The Content-Security-Policy (require-trusted-types-for) makes any assignment to innerHTML throw.

// h creates an element. Properties that begin with "on" are event listeners, all others are attributes; null, undefined
// and false are left out. Children are nodes, strings, or arrays of them.
export function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else attr(el, name, value);
  }
  el.append(...children.flat().filter((child) => child != null));
  return el;
}

const SVG = "http://www.w3.org/2000/svg";

// svg creates an SVG element.
export function svg(tag, attributes, ...children) {
  const el = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) el.setAttribute(name, value);
  el.append(...children);
  return el;
}

// attr sets an attribute; null, undefined and false remove it. An unchanged value is not written again, because screen
// readers announce changes.
export function attr(el, name, value) {
  if (value == null || value === false) el.removeAttribute(name);
  else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, value === true ? "" : value);
}

// written has the texts that text() has set.
const written = new WeakMap();

// text sets the text of an element if it differs. A browser that translates the page puts other words in its place, some in
// <font> elements. They stay as long as the text is the same: pages call this every second.
export function text(el, value) {
  const translated = () => written.get(el) === value && !el.querySelector(":not(font)");
  if (el.textContent !== value && !translated()) el.textContent = value;
  written.set(el, value);
}

// show sets the visibility of an element.
export function show(el, visible) {
  if (el.hidden === Boolean(visible)) el.hidden = !visible;
}

// keepFocusNear moves the focus when what had it disappears: to the heading of the part of the page around it, or to its table.
// Otherwise people with a keyboard or a screen reader would start again at the top of the page.
export function keepFocusNear() {
  let trail = []; // what had the focus last, and what it was in; empty after a press elsewhere
  document.addEventListener("pointerdown", () => (trail = []), { capture: true });
  document.addEventListener("focusin", ({ target }) => {
    if (target.closest("dialog")) return;
    trail = [];
    for (let el = target; el; el = el.parentElement) trail.push(el);
  });
  new MutationObserver(() => {
    const [last] = trail;
    const active = document.activeElement;
    if (!last || (active !== last && active !== document.body)) return;
    if (last.isConnected && !last.closest("[hidden]")) return;
    const place = trail.find((el) => el.matches("[aria-labelledby], [role='group'][tabindex]") && el.isConnected && el.checkVisibility());
    const to = document.getElementById(place?.getAttribute("aria-labelledby")) ?? place ?? document.querySelector("main h1");
    if (to?.tabIndex < 0) attr(to, "tabindex", -1);
    to?.focus({ preventScroll: true });
  }).observe(document.body, { subtree: true, childList: true, attributeFilter: ["hidden"] });
}

// focusPage moves the focus to the beginning of the page: to its first field if it is for input, else to its heading.
export function focusPage() {
  const first = document.querySelector("main [data-first]") ?? document.querySelector("main h1");
  first?.focus({ preventScroll: true });
}

let ids = 0;

// newID returns a unique id, for references between elements.
export function newID(what) {
  return `${what}-${++ids}`;
}
