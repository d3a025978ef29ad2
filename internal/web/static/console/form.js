// Forms whose fields are checked here as the server checks them, and which show what the server says beside the field.

import { attr, h, newID, show, text } from "../lib/dom.js";
import { digits, has, number, t } from "../lib/i18n.js";
import { once } from "../lib/intent.js";
import { session } from "../lib/session.js";
import { trouble } from "./parts.js";

// Refused is thrown by the reading of a field that cannot be right; its message is for the person.
class Refused extends Error {}

const refuse = (key, values) => {
  throw new Refused(t(key, values));
};

function whole(input, { min, max }) {
  if (!/^-?\d{1,15}$/.test(input)) refuse("form.whole");
  const n = Number(input);
  if (n < min || n > max) refuse("form.between", { min: number(min), max: number(max) });
  return n;
}

function words(input, { max }) {
  if ([...input].length > max) refuse("form.long", { max: number(max) });
  return input;
}

function id(input) {
  if (!/^[1-9]\d{0,18}$/.test(input)) refuse("form.id");
  return input;
}

const MOST = 100_000_000_000; // of an amount in the smallest unit

// amount reads 9.90 as 990, where the currency has cents. No number with a fraction is involved.
function amount(input, { currency }) {
  const places = placesOf(currency());
  const [, units, fraction = ""] = /^(\d{1,12})(?:[.,](\d+))?$/.exec(input) ?? refuse("form.amount");
  if (fraction.length > places) refuse("form.decimals", { places });
  const n = Number(units + fraction.padEnd(places, "0"));
  if (n > MOST) refuse("form.amount");
  return n;
}

function placesOf(currency) {
  try {
    return digits(currency);
  } catch {
    return 2; // the field of the currency says what is wrong with it
  }
}

// written is an amount as amount reads it.
export function written(n, currency) {
  const places = placesOf(currency);
  const all = String(n).padStart(places + 1, "0");
  return places === 0 ? all : `${all.slice(0, -places)}.${all.slice(-places)}`;
}

// time reads what the visitor's zone calls so.
function time(input) {
  const at = new Date(input);
  if (Number.isNaN(at.getTime()) || at.getFullYear() < 2002 || at.getFullYear() > 9998) refuse("form.time");
  return at.toISOString();
}

// localTime is a time as its field has it.
export function localTime(at) {
  const d = new Date(at);
  const two = (n) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

const kinds = {
  text: { read: words, props: { type: "text" } },
  area: { read: words, tag: "textarea", props: { rows: 3 } },
  whole: { read: whole, props: { type: "text", inputmode: "numeric" } },
  id: { read: id, props: { type: "text", inputmode: "numeric" } },
  amount: { read: amount, props: { type: "text", inputmode: "decimal" } },
  time: { read: time, props: { type: "datetime-local", step: 1 } },
  choice: { read: (input) => input, tag: "select", props: {} },
};

// field makes one field of {name, kind, label, note, value, required, min, max, currency, options, autocomplete, empty}:
// `empty` is what it means when nothing is written.
function field(def) {
  const ids = { input: newID(def.name), note: newID("note"), error: newID("error") };
  const kind = kinds[def.kind];
  const options = (def.options ?? []).map(([value, label]) => h("option", { value }, label));
  const input = h(kind.tag ?? "input", {
    id: ids.input, name: def.name, autocomplete: def.autocomplete ?? "off", "aria-describedby": `${ids.note} ${ids.error}`,
    "aria-required": def.required && "true", ...kind.props,
  }, ...options);
  input.value = def.value ?? "";
  const error = h("p", { id: ids.error, class: "error" });
  const element = h("div", { class: "field", "data-field": def.name },
    h("label", { for: ids.input }, def.label), input,
    h("p", { id: ids.note, class: "note" }, def.note ?? ""), error);
  show(element.querySelector(".note"), def.note);
  const complain = (sentence) => {
    text(error, sentence);
    attr(input, "aria-invalid", sentence ? "true" : null);
  };
  let initial = input.value;
  let asRead = initial;
  return {
    def, element, input, complain,
    changed: () => input.value !== initial,
    // settle says that what was read last is what is so; what was written since then is not.
    settle() {
      initial = asRead;
    },
    reset(value) {
      const scratch = input.cloneNode(true);
      scratch.value = value;
      const written = scratch.value; // as the browser writes it: 20:00 for 20:00:00
      if (input.value === initial && initial !== written) input.value = written; // what is being written stays
      initial = written;
    },
    // read returns the value; undefined where nothing is given.
    read() {
      asRead = input.value;
      const raw = asRead.trim();
      if (raw !== "") return kind.read(raw, def);
      if (def.required) refuse("form.required");
      return def.empty;
    },
  };
}

// forms are those of the page that is shown. When it is shown anew, in another language or because another tab renewed the
// session, each form takes up what was being written in the one before it.
let forms = new Map();

// forget is for when another page is shown: what was being written is given up.
export function forget() {
  forms = new Map();
}

// form makes a form of fields. Options: `fields`; `label` of its button, and `name`, its data-form; `check(values)` returns
// {field: sentence} of what does not fit together; `work(values, form)` sends it; `kind` of the button. With `changes`
// only what was changed is read.
export function form({ name, fields, label, kind = "primary", check, work, changes = false, children = [] }) {
  const all = new Map(fields.map((def) => [def.name, field(def)]));
  const out = trouble();
  const send = h("button", { type: "submit", class: kind, "data-do": name }, label);
  const element = h("form", { class: "form", "data-form": name, novalidate: true },
    h("div", { class: "fields" }, ...[...all.values()].map((f) => f.element)), ...children, out.element,
    h("div", { class: "actions" }, send));

  function complain(errors) {
    let first = null;
    for (const [field, f] of all) {
      f.complain(errors[field] ?? "");
      if (errors[field]) first ??= f.input;
    }
    first?.focus();
    return first !== null;
  }

  // read collects the values, or complains and returns null.
  function read() {
    const values = {};
    const errors = {};
    for (const [field, f] of all) {
      try {
        const value = f.read();
        if (value !== undefined && (!changes || f.changed())) values[field] = value;
      } catch (err) {
        if (!(err instanceof Refused)) throw err;
        errors[field] = err.message;
      }
    }
    if (Object.keys(errors).length === 0) Object.assign(errors, check?.(values, api));
    return complain(errors) ? null : values;
  }

  element.addEventListener("submit", once(send, out, async () => {
    const values = read();
    if (values === null) return;
    try {
      await work(values, api);
    } catch (problem) {
      const errors = Object.fromEntries((problem.errors ?? []).map((e) => [e.field, has(`invalid.${e.field}`) ? t(`invalid.${e.field}`) : t("form.refused")]));
      if (!complain(errors)) throw problem;
      out.show(problem);
    }
  }));

  const api = {
    element, out,
    value: (field) => all.get(field)?.input.value,
    // written is what somebody is writing.
    written: () => [...all].filter(([, f]) => f.changed()).map(([field, f]) => [field, f.input.value]),
    // write writes into the form as its user does.
    write(entries) {
      for (const [field, value] of entries) if (all.has(field)) all.get(field).input.value = value;
    },
    // clear empties the form; reset gives its fields new values, but for those that somebody is writing in.
    clear() {
      for (const f of all.values()) f.input.value = f.def.value ?? "";
    },
    reset(values) {
      for (const [field, value] of Object.entries(values)) all.get(field)?.reset(value);
    },
    // settle says that what was read of these fields is what is so.
    settle(names) {
      for (const field of names) all.get(field).settle();
    },
    complain,
  };
  const key = `${session.user()?.id} ${name}`; // nobody finds what another one wrote
  api.write(forms.get(key)?.written() ?? []);
  forms.set(key, api);
  return api;
}
