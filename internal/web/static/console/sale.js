// One sale: live, and what can be changed about it.

import { getMine, patchMine } from "../lib/api.js";
import { now } from "../lib/clock.js";
import { confirm } from "../lib/confirm.js";
import { attr, h, show, text } from "../lib/dom.js";
import { money, number, stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { form, localTime, written } from "./form.js";
import { panel } from "./panel.js";
import { another, chip, chipped, done, factList, section, trouble } from "./parts.js";
import { fields, fits, stateOf } from "./sales.js";

const MOST_UNITS = 1_000_000_000;

// mount shows the sale of the id.
export function mount(root, id) {
  const title = h("h1", { tabindex: -1 }, t("sale.title"));
  const top = h("header", { class: "lead" }, title, h("a", { href: "/console", class: "link" }, t("sales.back")));
  const out = trouble();
  const sub = h("p", { class: "sub" });
  const state = chip("");
  const list = factList();
  const about = h("div", { class: "panel", hidden: true }, h("div", { class: "head" }, sub, state), list.element,
    h("div", { class: "actions" },
      h("a", { href: `/console/orders?voucher_id=${id}`, class: "link" }, t("sale.orders")),
      h("a", { href: `/console/audit?voucher_id=${id}`, class: "link" }, t("sale.audit"))));
  const forms = h("div", { class: "forms" });
  let live = null;
  let edit = null;
  let gone = false;
  let current = null; // the voucher as it was said last

  function facing(v) {
    current = v;
    text(title, v.title);
    text(sub, v.sub_title);
    chipped(state, ...stateOf(v));
    attr(about, "data-state", v.state);
    show(about, true);
    const values = {
      id: v.id, begin_at: v.begin_at && stamp(v.begin_at), end_at: v.end_at && stamp(v.end_at),
      pay_value: money(v.pay_value, v.currency), actual_value: money(v.actual_value, v.currency),
      stock: v.stock === undefined ? "" : number(v.stock), limit_per_user: v.limit_per_user, rules: v.rules,
    };
    list.set(Object.entries(values).map(([name, value]) => ({ id: name, name: t(`voucher.${name}`), value })));
    edit?.reset(asWritten(v));
  }

  // take shows the voucher as somebody has just said that it is.
  function take(v) {
    if (gone) return;
    facing(v);
    if (edit) return;
    edit = editor(v);
    forms.append(section(t("sale.change"), edit.element));
    if (v.type !== "seckill") return;
    forms.append(section(t("sale.stock"), stock()));
    live = panel(id, ({ voucher }) => {
      // What the server saw before the last change would undo it here.
      if (Date.parse(voucher.updated_at) >= Date.parse(current.updated_at)) facing(voucher);
    });
    about.after(live.element);
  }

  function editor(v) {
    const told = done();
    const f = form({
      name: "change", label: t("sale.save"), changes: true, check: fits, children: [told.element],
      fields: [
        ...fields(v, () => v.currency).map((field) => ({ ...field, value: asWritten(v)[field.name] })),
        { name: "status", kind: "choice", label: t("voucher.status"), value: v.status, options: ["on", "off", "expired"].map((s) => [s, t(`voucher.${s}`)]) },
      ],
      work: async (values) => {
        told.clear();
        if (Object.keys(values).length === 0) return told.say(t("sale.same"));
        for (const question of ending(values)) if (!(await confirm(t(question, { title: current.title }), t("sale.save")))) return;
        const changed = await patchMine(`/admin/vouchers/${id}`, { body: values });
        f.settle(Object.keys(values));
        take(changed);
        told.say(t("sale.saved"));
      },
    });
    return f;
  }

  // ending are the questions before a change that ends the sale for its buyers.
  const ending = (values) => [
    values.status !== undefined && values.status !== "on" && current.status === "on" && "sale.sure.off",
    values.end_at !== undefined && Date.parse(values.end_at) <= now() && "sale.sure.end",
  ].filter(Boolean);

  function stock() {
    const post = intents({ lasting: true });
    const path = `/admin/vouchers/${id}/stock`;
    const told = done();
    const open = h("p", { class: "note", "data-open": true });
    const tell = () => {
      const body = post.open(path);
      text(open, body ? t("sale.open", body) : "");
      show(open, body);
    };
    const f = form({
      name: "stock", label: t("sale.book"), children: [open, told.element],
      fields: [
        { name: "delta", kind: "whole", label: t("sale.delta"), note: t("sale.deltaNote"), required: true, min: -MOST_UNITS, max: MOST_UNITS },
        { name: "reason", kind: "text", label: t("sale.reason"), note: t("sale.reasonNote"), required: true, max: 255 },
      ],
      check: (values) => (values.delta === 0 ? { delta: t("form.zero") } : {}),
      work: async (values) => {
        told.clear();
        if (!(await another(post, path, values, (open) => `${open.delta}, ${open.reason}`))) return;
        if (values.delta < 0 && !(await confirm(t("sale.sure.take", { n: number(-values.delta), title: current.title }), t("sale.book")))) return;
        const v = await post(path, values).finally(tell);
        f.clear();
        take(v);
        told.say(t("sale.booked", { n: number(v.stock) }));
      },
    });
    if (post.open(path) && f.written().length === 0) f.write(Object.entries(post.open(path)));
    tell();
    return f.element;
  }

  root.replaceChildren(top, out.element, about, forms);
  getMine(`/vouchers/${id}`).then(take, (problem) => {
    if (!problem.code) throw problem;
    out.show(problem);
  });
  return () => {
    gone = true;
    live?.end();
  };
}

// asWritten is a voucher as its form has it.
function asWritten(v) {
  const all = { ...v, pay_value: written(v.pay_value, v.currency), actual_value: written(v.actual_value, v.currency), limit_per_user: String(v.limit_per_user) };
  for (const at of ["begin_at", "end_at"]) if (v[at]) all[at] = localTime(v[at]);
  return all;
}
