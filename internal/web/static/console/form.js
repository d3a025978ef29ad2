// Forms that check their fields by the server's rules and show the server's errors beside the fields.

import { attr, h, newID, show, text } from "../lib/dom.js";
import { digits } from "../lib/currency.js";
import { has, number, t, zone } from "../lib/i18n.js";
import { once, singleFlight } from "../lib/intent.js";
import { session } from "../lib/session.js";
import { errorBox } from "./parts.js";
import { picture } from "./picture.js";

// InvalidInput is thrown when a field's input is invalid. Its message is shown to the user.
class InvalidInput extends Error {}

const reject = (key, values) => {
  throw new InvalidInput(t(key, values));
};

// plain returns what was meant with any keyboard or copy: the plain form of full-width characters and of the minus sign,
// without spaces and characters that show nothing.
const plain = (input) =>
  input.normalize("NFKC").replace(/\u2212/g, "-").replace(/[\s\p{Default_Ignorable_Code_Point}\p{Cf}]/gu, "");

function whole(input, { min, max }) {
  if (!/^[+-]?\d{1,15}$/.test(input)) reject("form.whole");
  const n = Number(input);
  if (n < min || n > max) reject("form.between", { min: number(min), max: number(max) });
  return n;
}

function words(input, { max }) {
  if ([...input].length > max) reject("form.long", { max: number(max) });
  return input;
}

function id(input) {
  if (!/^[1-9]\d{0,18}$/.test(input)) reject("form.id");
  return input;
}

function currency(input) {
  const code = input.toUpperCase();
  if (!/^[A-Z]{3}$/.test(code)) reject("form.currency");
  return code;
}

const MAX_AMOUNT = 100_000_000_000; // in the smallest unit

// amount parses 9.90 as 990 if the currency has two decimals. It does not use fractional numbers. 1,000 may mean a thousand.
function amount(input, { currency }) {
  const places = digits(currency());
  const [, units, point, comma] = /^(\d{1,15})(?:\.(\d+)|,(\d{1,2}))?$/.exec(input) ?? reject("form.amount");
  const fraction = point ?? comma ?? "";
  if (fraction.length > places) reject("form.decimals", { places });
  const n = Number(units + fraction.padEnd(places, "0"));
  if (n > MAX_AMOUNT) reject("form.between", { min: number(0), max: number(MAX_AMOUNT / 10 ** places) });
  return n;
}

// formatAmount formats an amount as the field's parser expects it.
export function formatAmount(n, currency) {
  const places = digits(currency);
  const all = String(n).padStart(places + 1, "0");
  return places === 0 ? all : `${all.slice(0, -places)}.${all.slice(-places)}`;
}

// time parses a local time of the browser's zone. A time that the end of summer time repeats is the first of both; one that
// its start skips is refused, because browsers move it.
function time(input) {
  const at = new Date(input);
  if (Number.isNaN(at.getTime()) || at.getFullYear() < 2002 || at.getFullYear() > 9998) reject("form.time");
  if (!localTime(at).startsWith(input.slice(0, "2026-11-11T20:00".length))) reject("form.noTime", { zone: zone(at) });
  return at.toISOString();
}

// localTime formats a time as the value of a datetime-local field.
export function localTime(at) {
  const d = new Date(at);
  const two = (n) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

// minutes reads a time as minutes, or minutes:seconds, and returns seconds. formatMinutes is the reverse.
function minutes(input, { min, max }) {
  const [, m, s = "0"] = /^(\d{1,6})(?::([0-5]\d))?$/.exec(input) ?? reject("form.minutes");
  const seconds = Number(m) * 60 + Number(s);
  if (seconds < min || seconds > max) reject("form.between", { min: formatMinutes(min), max: formatMinutes(max) });
  return seconds;
}

export function formatMinutes(seconds) {
  const rest = seconds % 60;
  return Math.floor(seconds / 60) + (rest === 0 ? "" : `:${String(rest).padStart(2, "0")}`);
}

// day reads a day of the browser's zone.
function day(input) {
  const year = Number(input.slice(0, 4));
  if (!/^\d{4}-\d{2}-\d{2}$/.test(input) || year < 2003 || year > 9997) reject("form.day");
  return input;
}

const kinds = {
  text: { read: words, props: { type: "text" } },
  area: { read: words, tag: "textarea", props: { rows: 3 } },
  whole: { read: whole, clean: plain, props: { type: "text", inputmode: "numeric" } },
  id: { read: id, clean: plain, props: { type: "text", inputmode: "numeric" } },
  minutes: { read: minutes, clean: (input) => plain(input).replace("：", ":"), props: { type: "text", inputmode: "text" } },
  pasted: { read: words, clean: plain, props: { type: "text" } }, // a number or a reference that is one word
  amount: { read: amount, clean: (input) => plain(input).replace("。", "."), props: { type: "text", inputmode: "decimal" } },
  time: { read: time, props: { type: "datetime-local", step: 1 } },
  day: { read: day, props: { type: "date" } },
  currency: { read: currency, clean: plain, props: { type: "text" } },
  picture: { read: (input) => input, props: { type: "text" }, control: picture },
  choice: { read: (input) => input, tag: "select", props: {} },
};

// field creates a field of {name, kind, label, note, value, required, min, max, currency, options, autocomplete, empty};
// `empty` is the value of an empty field. A `note` may be a function of the value. A field with `shown` is hidden, and not read, while shown(value) is false;
// value(name) is what another field contains. A kind with a `control` shows that in place of its input.
function field(def) {
  const ids = { input: newID(def.name), note: newID("note"), error: newID("error") };
  const kind = kinds[def.kind];
  const options = (def.options ?? []).map(([value, label]) => h("option", { value }, label));
  const input = h(kind.tag ?? "input", {
    id: ids.input, name: def.name, autocomplete: def.autocomplete ?? "off", "aria-describedby": `${ids.note} ${ids.error}`,
    "aria-required": def.required && "true", ...kind.props,
  }, ...options);
  input.value = def.value ?? "";
  const error = h("p", { id: ids.error, class: "error", role: kind.control && "alert" });
  const showError = (sentence) => {
    text(error, sentence);
    attr(focusable, "aria-invalid", sentence ? "true" : null);
  };
  const control = kind.control?.(input, showError);
  const focusable = control?.focusable ?? input;
  const note = h("p", { id: ids.note, class: "note" });
  const element = h("div", { class: "field", "data-field": def.name, "data-kind": def.kind }, h("label", { for: ids.input }, def.label), control?.element ?? input, note, error);
  const explain = () => {
    text(note, (typeof def.note === "function" ? def.note(input.value) : def.note) || "");
    show(note, note.textContent);
  };
  explain();
  let initial = input.value;
  let asRead = initial;

  // parse returns the value of the input, or def.empty. Invalid input throws InvalidInput.
  function parse() {
    if (control?.uploading) reject("picture.wait");
    const raw = kind.clean?.(input.value) ?? input.value.trim();
    if (raw !== "") return kind.read(raw, def);
    if (def.required) reject("form.required");
    return def.empty;
  }

  return {
    def, element, input, showError, parse,
    focus() {
      const fold = element.closest("details");
      if (fold) fold.open = true;
      focusable.focus();
    },
    refresh() {
      control?.refresh();
      explain();
    },
    changed: () => input.value !== initial,
    // markSaved makes the value that was read last the unchanged one. Edits made since then remain edits.
    markSaved() {
      initial = asRead;
    },
    reset(value) {
      const scratch = input.cloneNode(true);
      scratch.value = value;
      const normalized = scratch.value; // the browser may shorten it: 20:00 for 20:00:00
      if (input.value === initial && initial !== normalized) input.value = normalized; // an edit is kept
      initial = normalized;
    },
    // read is parse for values that are about to be saved.
    read() {
      asRead = input.value;
      return parse();
    },
  };
}

// forms holds the forms of the current page by user and name. When the page is rendered again (another language, a
// renewed session), each form takes over the edits of its predecessor.
let forms = new Map();

// forget discards all edits. It is called when another page is shown.
export function forget() {
  forms = new Map();
}

// A reload, or a page of another site, would discard the edits as well. The browser words the question.
addEventListener("beforeunload", (event) => {
  if ([...forms.values()].some((form) => form.asks && form.edited().length > 0)) event.preventDefault();
});

// form creates a form. Options: `fields`; `label` and `kind` of its button; `name`, its data-form; `check(values, form)`,
// which returns {field: sentence} for values that do not fit together; `work(values, form)`, which sends the values. With
// `changes` these are those of edited fields only; check receives all. `groups` are {name, title, folded}: a field belongs to
// the one that its `group` names. With `asks` the browser asks before it discards the edits. `status` is a statusLine, which ends
// with the next attempt.
export function form({ name, fields, label, kind = "primary", check, work, changes = false, children = [], status = null, groups = null, asks = false }) {
  const all = new Map(fields.map((def) => [def.name, field(def)]));
  const out = errorBox();
  const send = h("button", { type: "submit", class: kind, "data-do": name, onclick: once }, label);
  const element = h("form", { class: "form", "data-form": name, novalidate: true },
    ...(groups ?? [{}]).map(group), ...children, status?.element, out.element,
    h("div", { class: "actions" }, send));

  // group returns the fields of a group, below its title.
  function group(g) {
    const own = h("div", { class: "fields" }, ...[...all.values()].filter((f) => !g.name || f.def.group === g.name).map((f) => f.element));
    if (!g.name) return own;
    if (!g.folded) return h("fieldset", { "data-group": g.name }, h("legend", {}, g.title), own);
    return h("details", { "data-group": g.name }, h("summary", {}, g.title), own);
  }

  function showFields() {
    for (const f of all.values()) {
      if (f.def.shown) show(f.element, f.def.shown(api.value));
      f.refresh();
    }
  }

  // showErrors shows {field: sentence} beside the fields, and returns false if there is none.
  function showErrors(errors) {
    let first = null;
    for (const [field, f] of all) {
      f.showError(errors[field] ?? "");
      if (errors[field]) first ??= f;
    }
    first?.focus();
    return first !== null;
  }

  // read returns the values, or shows errors and returns null.
  function read() {
    const values = {};
    const complete = {};
    const errors = {};
    for (const [field, f] of all) {
      if (f.element.hidden) continue;
      try {
        const value = f.read();
        if (value === undefined) continue;
        complete[field] = value;
        if (!changes || f.changed()) values[field] = value;
      } catch (err) {
        if (!(err instanceof InvalidInput)) throw err;
        errors[field] = err.message;
      }
    }
    return showErrors({ ...check?.(complete, api), ...errors }) ? null : values;
  }

  element.addEventListener("submit", singleFlight(send, out, async () => {
    status?.clear();
    const values = read();
    if (values === null) return;
    try {
      await work(values, api);
    } catch (problem) {
      const errors = Object.fromEntries((problem.errors ?? []).map((e) => [e.field, has(`invalid.${e.field}`) ? t(`invalid.${e.field}`) : t("form.refused")]));
      if (!showErrors(errors)) throw problem;
      out.show(problem, (field) => all.has(field));
    }
  }));

  const api = {
    element, out, asks,
    value: (field) => all.get(field)?.input.value,
    // parsed returns what a field would send; undefined if its input is invalid, or empty without a value for that.
    parsed(field) {
      try {
        return all.get(field)?.parse();
      } catch (err) {
        if (!(err instanceof InvalidInput)) throw err;
      }
    },
    // edited returns the edits as [field, value].
    edited: () => [...all].filter(([, f]) => f.changed()).map(([field, f]) => [field, f.input.value]),
    // write sets field values as user input.
    write(entries) {
      for (const [field, value] of entries) if (all.has(field)) all.get(field).input.value = value;
      showFields();
    },
    // clear resets all fields to their initial values. reset changes the values of fields that are not being edited.
    clear() {
      for (const f of all.values()) f.input.value = f.def.value ?? "";
      showFields();
    },
    reset(values) {
      for (const [field, value] of Object.entries(values)) all.get(field)?.reset(value);
      showFields();
    },
    // markSaved marks the values last read from these fields as saved.
    markSaved(names) {
      for (const field of names) all.get(field).markSaved();
    },
    showErrors,
    // focus moves to a field; false if the form does not have it.
    focus(field) {
      all.get(field)?.focus();
      return all.has(field);
    },
  };
  element.addEventListener("change", showFields);
  const key = `${session.user()?.id} ${name}`; // edits belong to one user
  api.write(forms.get(key)?.edited() ?? []);
  forms.set(key, api);
  return api;
}
