// Components of the console's pages.

import { announce } from "../lib/announce.js";
import { getMine } from "../lib/api.js";
import { confirm } from "../lib/confirm.js";
import { attr, h, newID, show, text } from "../lib/dom.js";
import { backoff, sleep } from "../lib/events.js";
import { explain, reference } from "../lib/explain.js";
import { has, number, t } from "../lib/i18n.js";
import { intents, singleFlight } from "../lib/intent.js";
import { moreButton } from "../lib/more.js";
import { session } from "../lib/session.js";
import { detailOf } from "./details.js";

// detail returns what a Problem says beyond its code: the server's words, which are English, or in another language their
// translation, or else what is wrong with the fields that `beside` does not show elsewhere.
function detail(problem, beside) {
  if (["network", "not_found"].includes(problem.code)) return "";
  const [words, lang] = detailOf(problem.detail ?? "");
  if (lang === null) return words;
  return (problem.errors ?? []).filter((e) => !beside(e.field) && has(`invalid.${e.field}`)).map((e) => t(`invalid.${e.field}`)).join("");
}

// errorBox shows a Problem: an explanation, its details, the code and the request id. beside(field) reports whether the page
// shows the error of a field beside it.
export function errorBox() {
  const sentence = h("p", { class: "error" });
  const note = h("p", { class: "note" });
  const code = h("p", { class: "reference" });
  const element = h("div", { class: "error-box", role: "alert", hidden: true }, sentence, note, code);
  return {
    element,
    clear: () => show(element, false),
    show(problem, beside = () => false) {
      text(sentence, problem.open ? `${explain(problem)} ${t("open.unknown")}` : explain(problem));
      text(note, detail(problem, beside));
      text(code, [problem.code, reference(problem)].filter(Boolean).join(" · "));
      show(element, true);
    },
  };
}

const FIRST = 1_000; // ms
const MOST = 15_000;

// pauseAfter returns the ms after which a read is repeated that has failed so often before; 0 if that is of no use.
function pauseAfter(problem, failures) {
  const passing = problem.status === 0 || problem.status === 429 || problem.status >= 500;
  return passing ? problem.retryAfter + backoff(failures, FIRST, MOST) : 0;
}

// reading resolves to what read() does, which it repeats while the server does not answer or is overloaded. The error box `out`
// of the page shows why. It resolves to null after another Problem, and when the page has been left.
export async function reading(out, read) {
  for (let failures = 0; ; failures++) {
    try {
      const answer = await read();
      if (failures > 0) out.clear();
      return out.element.isConnected ? answer : null;
    } catch (problem) {
      if (!problem.code) throw problem;
      out.show(problem);
      const pause = pauseAfter(problem, failures);
      if (pause > 0) await sleep(pause);
      if (pause === 0 || !out.element.isConnected) return null;
    }
  }
}

// poll calls read() now and every so many ms, while `element` is on the page and that is visible. The error box `out` shows why a
// read has failed.
export async function poll(element, out, every, read) {
  for (; element.isConnected; await sleep(every)) {
    if (document.hidden) continue;
    try {
      await read();
      out.clear();
    } catch (problem) {
      if (!problem.code) throw problem;
      out.show(problem);
    }
  }
}

// confirmAnother asks for confirmation if the outcome of a different request to the same path is unknown; `describe`
// describes the body of that request. It resolves to whether to send the new one.
export async function confirmAnother(post, path, body, describe) {
  const open = post.open(path);
  return !open || post.same(path, body) || confirm(t("open.another", { open: describe(open) }), t("open.do"));
}

// button creates a button that runs work() and ignores presses while it runs. `name` is its data-do and selects its
// default label.
export function button({ name, label, kind = "quiet", about, out }, work) {
  const b = h("button", { type: "button", class: kind, "data-do": name, "aria-describedby": about }, label ?? t(`do.${name}`));
  b.addEventListener("click", singleFlight(b, out, work));
  return b;
}

// section returns a part of a page with its own heading.
export function section(title, ...children) {
  const id = newID("section");
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

// head returns the header of a page.
export function head(title, ...more) {
  return h("header", { class: "lead" }, h("h1", { tabindex: -1 }, title), ...more);
}

const LONG = 60; // characters; a longer value has a row of its own

// factList shows names and values. set takes {name, value, id} entries; values are text or nodes, empty ones are left
// out, `id` becomes the data-fact of the value. Unchanged entries are not touched, so set may be called every second.
export function factList() {
  const element = h("dl", { class: "facts-list" });
  let shown = "";
  return {
    element,
    set(entries) {
      const given = entries.filter((e) => e.value != null && e.value !== "" && e.value !== false);
      const names = JSON.stringify(given.map((e) => e.name));
      if (names !== shown) element.replaceChildren(...given.map((e) => h("div", {}, h("dt", {}, e.name), h("dd", { "data-fact": e.id }))));
      shown = names;
      given.forEach(({ value }, i) => {
        const dd = element.children[i].lastChild;
        attr(element.children[i], "class", typeof value === "string" && value.length > LONG ? "long" : null);
        if (value instanceof Node) dd.replaceChildren(value);
        else text(dd, String(value));
      });
    },
  };
}

// facts returns a static list of [name, value] pairs.
export function facts(entries) {
  const list = factList();
  list.set(entries.map(([name, value]) => ({ name, value })));
  return list.element;
}

// finder returns a form that filters the page. On a phone it is folded, so that the results are near the top.
export const finder = (title, form) => h("details", { class: "panel fold", open: matchMedia("(min-width: 48rem)").matches }, h("summary", {}, h("h2", {}, title)), form);

// chip shows a word in a frame, coloured by `kind`. setChip changes it.
export const chip = (word, kind) => h("span", { class: "chip", "data-kind": kind }, word);
export const setChip = (el, word, kind) => {
  text(el, word);
  attr(el, "data-kind", kind);
};

// keepFocus calls render(), which replaces what an element contains. If a link there had the focus, the new link to the
// same page gets it. Otherwise people with a keyboard or a screen reader would start again at the top of the page.
export function keepFocus(element, render) {
  const held = element.contains(document.activeElement) && document.activeElement.getAttribute("href");
  render();
  if (!held || element.contains(document.activeElement)) return;
  [...element.querySelectorAll("a")].find((a) => a.getAttribute("href") === held)?.focus({ preventScroll: true });
}

// table shows rows. Columns are {label, cell(row), number}; the first column is the row header. On narrow screens the rows
// of a table with `cards` are shown as cards. The roles are explicit because that layout removes the implicit ones.
export function table(caption, columns, { cards = false } = {}) {
  const body = h("tbody", { role: "rowgroup" });
  const element = h("div", { class: cards ? "scroll cards" : "scroll", tabindex: 0, role: "group", "aria-label": caption },
    h("table", { role: "table" }, h("caption", { class: "sr" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((c) => h("th", { scope: "col", role: "columnheader", class: c.number && "number" }, c.label)))), body));
  const row = (item) => h("tr", { role: "row" }, columns.map((c, i) =>
    h(i === 0 ? "th" : "td", { scope: i === 0 && "row", role: i === 0 ? "rowheader" : "cell", class: c.number && "number", "data-label": c.label }, c.cell(item))));
  return {
    element,
    set(rows) {
      keepFocus(body, () => body.replaceChildren(...rows.map(row)));
      show(element, rows.length > 0);
    },
  };
}

// pages returns the read of a listing: page by page from a path of the API, with parameters.
export const pages = (path, params = {}) => (cursor) => getMine(`${path}?${new URLSearchParams({ limit: 50, ...params, ...(cursor && { cursor }) })}`);

// listing shows rows that are read page by page: read(cursor) returns {items, next_cursor}. load() reads as many as are
// shown again, refresh() renders the rows again. The answer to an outdated request is ignored. refused(problem) may show the
// problem of a load elsewhere, and then returns true.
export function listing({ caption, columns, empty, read, refused = () => false }) {
  const out = errorBox();
  const rows = table(caption, columns, { cards: true });
  const count = h("p", { class: "note", "data-count": true });
  const nothing = h("p", { class: "empty" }, t("loading"));
  const more = moreButton("more", t("more"), () => page(false), out);
  let items = [];
  let cursor = null;
  let requests = 0;
  let failures = 0;

  async function page(first) {
    const turn = ++requests;
    const known = items.length;
    const wanted = first ? known : known + 1;
    let found = first ? [] : items;
    let next = first ? null : cursor;
    do {
      const answer = await read(next);
      if (turn !== requests) return;
      found = [...found, ...answer.items];
      next = answer.next_cursor;
    } while (next !== null && found.length < wanted);

    items = found;
    cursor = next;
    rows.set(items);
    text(count, items.length === 0 ? "" : t(cursor === null ? "list.all" : "list.more", { n: number(items.length) }));
    show(count, items.length > 0);
    text(nothing, empty);
    show(nothing, items.length === 0);
    more.update(cursor !== null, () => (first ? null : rows.element.querySelectorAll("tbody tr")[Math.min(known, items.length - 1)]));
  }

  // load does not wait for its repetitions: an action that loads the list again would not end.
  async function load() {
    attr(element, "aria-busy", "true");
    const turn = requests + 1;
    try {
      await page(true);
      failures = 0;
      if (turn === requests) out.clear();
    } catch (problem) {
      if (!problem.code) throw problem;
      if (turn !== requests) return;
      show(nothing, false);
      if (!refused(problem)) out.show(problem);
      const pause = pauseAfter(problem, failures++);
      if (pause > 0) setTimeout(() => element.isConnected && turn === requests && load(), pause);
    } finally {
      attr(element, "aria-busy", null);
    }
  }

  rows.set([]);
  more.update(false);
  show(count, false);
  const element = h("div", { class: "listing" }, out.element, count, rows.element, nothing, h("div", { class: "center" }, more.element));
  return {
    element,
    refresh: () => rows.set(items),
    load,
  };
}

// changing returns a function that waits for the answer to a change and reports its success. Then it loads what the page shows
// again, even after a failure: the change may have taken effect although its answer was lost, or somebody else's has.
export const changing = (status, load) => async (answer, sentence) => {
  status.clear();
  try {
    await answer;
    status.show(sentence);
  } finally {
    await load();
  }
};

// worklist shows the page of a list that staff works off, whose texts are t(`${name}.title`) and so on. `path` is that of the API,
// with `params`; `filter` is a form of the page. actions(entry, {out, post, change}) returns what an operator can do about an entry.
export function worklist(root, { name, path, params, filter = null, columns, actions }) {
  const out = errorBox();
  const status = statusLine();
  const tools = { out, post: intents(), change: changing(status, () => all.load()) };
  const all = listing({
    caption: t(`${name}.title`), empty: t(`${name}.none`), read: pages(path, params),
    columns: [...columns, ...(session.may("operate") ? [{ label: t("list.actions"), cell: (entry) => actions(entry, tools) }] : [])],
  });
  root.replaceChildren(head(t(`${name}.title`), h("p", {}, t(`${name}.lead`))), filter ? finder(t(`${name}.find`), filter.element) : "",
    h("div", { class: "bar" }, button({ name: "refresh", out }, () => all.load())), status.element, out.element, all.element);
  all.load();
}

// statusLine reports a success beside the control and to screen readers.
export function statusLine() {
  const element = h("p", { class: "status-line" });
  show(element, false);
  return {
    element,
    clear: () => show(element, false),
    show(sentence) {
      text(element, sentence);
      show(element, true);
      announce(sentence);
    },
  };
}
