// QR codes as SVG.

import { generate } from "../vendor/lean-qr.mjs";
import { svg } from "../lib/dom.js";

const QUIET = 4; // modules; the margin that the standard requires

// qr returns the QR code of a text as an image with an accessible name.
export function qr(content, label) {
  const code = generate(content);
  const size = code.size + 2 * QUIET;
  let path = "";
  for (let y = 0; y < code.size; y++) {
    for (let x = 0; x < code.size; x++) if (code.get(x, y)) path += `M${x + QUIET} ${y + QUIET}h1v1h-1z`;
  }
  return svg("svg", { class: "qr", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": label, "shape-rendering": "crispEdges" },
    svg("path", { class: "qr-light", d: `M0 0h${size}v${size}H0z` }), svg("path", { class: "qr-dark", d: path }));
}
