// The promises of a sale and whether they hold: a mark and a word each, not only a colour.

import { announce } from "../lib/announce.js";
import { attr, h, text } from "../lib/dom.js";
import { has, t } from "../lib/i18n.js";

const signs = { holds: "✓", broken: "✕", unknown: "?" };

const empty = () => h("li", {}, h("span", { class: "sign", "aria-hidden": "true" }),
  h("div", {}, h("strong", {}), " ", h("span", { class: "word" }), h("p", { class: "note" }), h("p", { class: "detail", lang: "en" })));

// verdicts is a list of {id, title, ok, detail}; ok is null where it could not be checked. A verdict that changes is said.
export function verdicts() {
  const element = h("ul", { class: "promises" });
  const said = new Map();
  return {
    element,
    set(all) {
      if (element.children.length !== all.length) element.replaceChildren(...all.map(empty));
      all.forEach((v, i) => {
        const li = element.children[i];
        const word = v.ok === null ? "unknown" : v.ok ? "holds" : "broken";
        const name = has(`promise.${v.id}`) ? t(`promise.${v.id}`) : v.title;
        attr(li, "data-invariant", v.id);
        attr(li, "data-ok", word);
        text(li.querySelector(".sign"), signs[word]);
        text(li.querySelector("strong"), `${v.id} ${name}`);
        text(li.querySelector(".word"), t(`promise.${word}`));
        text(li.querySelector(".note"), has(`promise.${v.id}.means`) ? t(`promise.${v.id}.means`) : "");
        text(li.querySelector(".detail"), v.detail ?? "");
        if (said.has(v.id) && said.get(v.id) !== word) announce(`${name}: ${t(`promise.${word}`)}`);
        said.set(v.id, word);
      });
    },
  };
}
