// What the console's pages are made of.

import { announce } from "../lib/announce.js";
import { confirm } from "../lib/confirm.js";
import { attr, h, newID, show, text } from "../lib/dom.js";
import { explain, reference } from "../lib/explain.js";
import { t } from "../lib/i18n.js";
import { once } from "../lib/intent.js";

// trouble is a place where a Problem is told: what it means, what the server said, its code and the request's id.
export function trouble() {
  const sentence = h("p", { class: "error" });
  const detail = h("p", { class: "note" });
  const code = h("p", { class: "reference" });
  const element = h("div", { class: "trouble", role: "alert", hidden: true }, sentence, detail, code);
  return {
    element,
    clear: () => show(element, false),
    show(problem) {
      text(sentence, problem.open ? `${explain(problem)} ${t("open.unknown")}` : explain(problem));
      text(detail, problem.code === "network" ? "" : problem.detail ?? "");
      text(code, [problem.code, reference(problem)].filter(Boolean).join(" · "));
      show(element, true);
    },
  };
}

// another asks before something is done while nobody knows whether something else that was asked for at the same place,
// in `words` of its body, was done; it returns whether to do it.
export async function another(post, path, body, words) {
  const open = post.open(path);
  return !open || post.same(path, body) || confirm(t("open.another", { open: words(open) }), t("open.do"));
}

// button makes a button that does something once at a time. `name` is its data-do and names its text.
export function button({ name, label, kind = "quiet", about, out }, work) {
  const b = h("button", { type: "button", class: kind, "data-do": name, "aria-describedby": about }, label ?? t(`do.${name}`));
  b.addEventListener("click", once(b, out, work));
  return b;
}

// section is a part of a page with a heading of its own.
export function section(title, ...children) {
  const id = newID("section");
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

// head is the top of a page.
export function head(title, ...more) {
  return h("header", { class: "lead" }, h("h1", { tabindex: -1 }, title), ...more);
}

// factList is a list of names and values. set takes entries {name, value, id}: values are text or nodes, those that are
// empty are left out, `id` is the data-fact of the value. What is so already is not touched, so that it can be
// called each second.
export function factList() {
  const element = h("dl", { class: "facts-list" });
  let shown = "";
  return {
    element,
    set(entries) {
      const given = entries.filter((e) => e.value != null && e.value !== "");
      const names = JSON.stringify(given.map((e) => e.name));
      if (names !== shown) element.replaceChildren(...given.map((e) => h("div", {}, h("dt", {}, e.name), h("dd", { "data-fact": e.id }))));
      shown = names;
      given.forEach(({ value }, i) => {
        const dd = element.children[i].lastChild;
        if (value instanceof Node) dd.replaceChildren(value);
        else text(dd, String(value));
      });
    },
  };
}

// facts is a factList that does not change, of [name, value].
export function facts(entries) {
  const list = factList();
  list.set(entries.map(([name, value]) => ({ name, value })));
  return list.element;
}

// chip is a word in a frame; `kind` colours it. chipped changes one.
export const chip = (word, kind) => h("span", { class: "chip", "data-kind": kind }, word);
export const chipped = (el, word, kind) => {
  text(el, word);
  attr(el, "data-kind", kind);
};

// table shows rows. Columns are {label, cell(row), number}; the first names its row.
export function table(caption, columns) {
  const body = h("tbody", {});
  const element = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "sr" }, caption),
      h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.number && "number" }, c.label)))), body));
  const row = (item) => h("tr", {}, columns.map((c, i) =>
    h(i === 0 ? "th" : "td", { scope: i === 0 && "row", class: c.number && "number" }, c.cell(item))));
  return {
    element,
    set(rows) {
      body.replaceChildren(...rows.map(row));
      show(element, rows.length > 0);
    },
  };
}

// listing shows what is read page by page: read(cursor) brings {items, next_cursor}. load() begins anew; an answer that
// was overtaken by another question is dropped.
export function listing({ caption, columns, empty, read }) {
  const out = trouble();
  const rows = table(caption, columns);
  const nothing = h("p", { class: "empty" }, t("loading"));
  const more = button({ name: "more", label: t("more"), out }, () => page(false));
  let items = [];
  let cursor = null;
  let asked = 0;

  async function page(anew) {
    const turn = ++asked;
    const answer = await read(anew ? null : cursor);
    if (turn !== asked) return;
    items = anew ? answer.items : [...items, ...answer.items];
    cursor = answer.next_cursor;
    rows.set(items);
    text(nothing, empty);
    show(nothing, items.length === 0);
    show(more, cursor !== null);
  }

  rows.set([]);
  show(more, false);
  const element = h("div", { class: "listing" }, out.element, rows.element, nothing, h("div", { class: "center" }, more));
  return {
    element,
    async load() {
      out.clear();
      attr(element, "aria-busy", "true");
      const turn = asked + 1;
      try {
        await page(true);
      } catch (problem) {
        if (!problem.code) throw problem;
        if (turn !== asked) return;
        show(nothing, false);
        out.show(problem);
      } finally {
        attr(element, "aria-busy", null);
      }
    },
  };
}

// done says that something has worked, beside what was pressed and to those who hear the page.
export function done() {
  const element = h("p", { class: "done" });
  show(element, false);
  return {
    element,
    clear: () => show(element, false),
    say(sentence) {
      text(element, sentence);
      show(element, true);
      announce(sentence);
    },
  };
}
