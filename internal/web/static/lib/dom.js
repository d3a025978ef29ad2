// Elements without markup: text goes in as text, so that nothing a merchant or a buyer wrote can become an element. The
// Content-Security-Policy (require-trusted-types-for) makes innerHTML throw, should somebody try.

// h makes an element. Properties that begin with "on" are listeners, `class` and everything else are attributes; those
// that are null, undefined or false are left out. Children are nodes or text, or lists of them.
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

// svg makes an element of a picture.
export function svg(tag, attributes, ...children) {
  const el = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) el.setAttribute(name, value);
  el.append(...children);
  return el;
}

// attr sets an attribute, or takes it away. What is so already is not touched: screen readers speak of changes.
export function attr(el, name, value) {
  if (value == null || value === false) el.removeAttribute(name);
  else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, value === true ? "" : value);
}

// text sets the text of an element, if it is another one.
export function text(el, value) {
  if (el.textContent !== value) el.textContent = value;
}

// show hides an element or shows it.
export function show(el, visible) {
  if (el.hidden === Boolean(visible)) el.hidden = !visible;
}

let ids = 0;

// newID returns an id for an element that another one refers to.
export function newID(what) {
  return `${what}-${++ids}`;
}
