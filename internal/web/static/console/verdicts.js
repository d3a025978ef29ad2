// The invariants of a sale and their results, each with a sign and a word besides its colour.

import { announce } from "../lib/announce.js";
import { attr, h, text } from "../lib/dom.js";
import { has, t } from "../lib/i18n.js";
import { detailOf } from "./details.js";

const signs = { holds: "✓", broken: "✕", unknown: "?" };

const empty = () => h("li", {}, h("span", { class: "sign", "aria-hidden": "true" }),
  h("div", {}, h("strong", {}), " ", h("span", { class: "word" }), h("p", { class: "note" }), h("p", { class: "detail" })));

// verdicts shows a list of {id, title, ok, detail}; ok is null for an invariant that could not be checked. A changed result
// is announced.
export function verdicts() {
  const element = h("ul", { class: "invariants" });
  const announced = new Map();
  return {
    element,
    set(all) {
      if (element.children.length !== all.length) element.replaceChildren(...all.map(empty));
      all.forEach((v, i) => {
        const li = element.children[i];
        const word = v.ok === null ? "unknown" : v.ok ? "holds" : "broken";
        const name = has(`invariant.${v.id}`) ? t(`invariant.${v.id}`) : v.title;
        attr(li, "data-invariant", v.id);
        attr(li, "data-ok", word);
        text(li.querySelector(".sign"), signs[word]);
        text(li.querySelector("strong"), `${v.id} ${name}`);
        text(li.querySelector(".word"), t(`invariant.${word}`));
        text(li.querySelector(".note"), has(`invariant.${v.id}.means`) ? t(`invariant.${v.id}.means`) : "");
        const [detail, lang] = detailOf(v.detail ?? "");
        text(li.querySelector(".detail"), detail);
        attr(li.querySelector(".detail"), "lang", lang);
        if (announced.has(v.id) && announced.get(v.id) !== word) announce(`${name}: ${t(`invariant.${word}`)}`);
        announced.set(v.id, word);
      });
    },
  };
}
