// The forms that change a sale, and their page.

import { getMine, patchMine } from "../lib/api.js";
import { now } from "../lib/clock.js";
import { confirm } from "../lib/confirm.js";
import { h, show, text } from "../lib/dom.js";
import { money, number, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { form } from "./form.js";
import { confirmAnother, errorBox, reading, section, statusLine } from "./parts.js";
import { all as allShops } from "./shops.js";
import { beside, preview } from "./preview.js";
import { body, fields, groups, MAX_UNITS, validate, valuesOf } from "./voucher.js";

// forms returns the forms of a voucher. changed(voucher) receives each answer; focus(field) moves to the field of a
// voucher, in whichever form changes it.
export function forms(v, shops, changed) {
  let current = v;
  const edit = editor(v, shops, changed);
  const units = v.type === "seckill" ? stock(v, changed) : null;
  const card = preview(edit, shops, { currency: () => v.currency, stock: () => current.stock ?? 0 });
  return {
    element: beside(h("div", {}, section(t("sale.change"), edit.element), units && section(t("sale.stock"), units.element)), card.element),
    reset(v) {
      current = v;
      edit.reset(valuesOf(v));
      card.update();
    },
    edited: () => [edit, units].some((f) => f?.edited().length > 0),
    focus: (field) => (field === "stock" ? units?.focus("delta") : edit.focus(field === "sale" ? "pay_timeout" : field)),
  };
}

function editor(v, shops, changed) {
  const status = statusLine();
  let saved = v;
  const f = form({
    name: "change", label: t("sale.save"), changes: true, asks: true, check: (...input) => validate(saved)(...input), status, groups: groups(),
    fields: fields(v, shops, () => v.currency),
    work: async (values) => {
      if (Object.keys(values).length === 0) return status.show(t("sale.same"));
      const ends = v.status === "on" && values.end_at !== undefined && Date.parse(values.end_at) <= now();
      if (!(await confirmPrice(v, values))) return;
      if (ends && !(await confirm(t("sale.sure.end", { title: v.title }), t("sale.do.end")))) return;
      saved = await patchMine(`/admin/vouchers/${v.id}`, { body: body(values, f) });
      f.markSaved(Object.keys(values));
      changed(saved);
      status.show(t(v.status === "on" ? "sale.saved" : "sale.savedDraft"));
    },
  });
  return f;
}

// confirmPrice asks before the price of a sale changes that is published, perhaps on another page since this one was opened.
// It resolves to whether to go on.
async function confirmPrice(v, { pay_value: price }) {
  if (price === undefined) return true;
  const { pay_value: now, status } = await getMine(`/vouchers/${v.id}`);
  if (status !== "on" || price === now) return true;
  const [was, is] = [now, price].map((n) => money(n, v.currency));
  return confirm(t("sale.sure.price", { title: v.title, was, is }), t("sale.do.price", { is }), t("sale.priceNote"));
}

function stock(v, changed) {
  const post = intents({ lasting: true });
  const path = `/admin/vouchers/${v.id}/stock`;
  const status = statusLine();
  const open = h("p", { class: "note", "data-open": true });
  const showOpen = () => {
    const body = post.open(path);
    text(open, body ? t("sale.open", body) : "");
    show(open, body);
  };
  const f = form({
    name: "stock", label: t("sale.apply"), children: [open], status,
    fields: [
      { name: "delta", kind: "whole", label: t("sale.delta"), note: t("sale.deltaNote"), required: true, min: -MAX_UNITS, max: MAX_UNITS },
      { name: "reason", kind: "text", label: t("sale.reason"), note: t("sale.reasonNote"), required: true, max: 255 },
    ],
    check: (values) => (values.delta === 0 ? { delta: t("form.zero") } : {}),
    work: async (values) => {
      if (!(await confirmAnother(post, path, values, (open) => `${open.delta}, ${open.reason}`))) return;
      if (values.delta < 0) {
        const { stock: free } = await getMine(`/vouchers/${v.id}`);
        if (free + values.delta < 0) return f.showErrors({ delta: t("sale.free", { n: number(free) }) });
        if (!(await confirm(t("sale.sure.take", { n: number(-values.delta), title: v.title }), t("sale.apply")))) return;
      }
      const saved = await post(path, values).finally(showOpen).catch(async (problem) => {
        if (problem.code !== "invalid_state" || values.delta > 0) throw problem;
        const current = await getMine(`/vouchers/${v.id}`);
        changed(current);
        f.showErrors({ delta: t("sale.free", { n: number(current.stock) }) });
      });
      if (!saved) return;
      f.clear();
      changed(saved);
      status.show(t("sale.stockUpdated", { n: number(saved.stock) }));
    },
  });
  if (post.open(path) && f.edited().length === 0) f.write(Object.entries(post.open(path)));
  showOpen();
  return f;
}

// mount shows the page of the forms of a sale. The query's `field` takes the focus.
export function mount(root, id) {
  const title = h("h1", { tabindex: -1 }, t("sale.change"));
  const out = errorBox();
  const place = h("div", {});
  root.replaceChildren(h("header", { class: "lead" }, title, h("a", { href: `/console/sales/${id}`, class: "link" }, t("sale.back"))), out.element, place);
  reading(out, () => Promise.all([getMine(`/vouchers/${id}`), allShops()])).then((found) => {
    if (!found) return;
    const [v, shops] = found;
    text(title, v.title);
    const all = forms(v, shops, (changed) => {
      text(title, changed.title);
      all.reset(changed);
    });
    place.replaceChildren(all.element);
    all.focus(new URLSearchParams(location.search).get("field"));
  });
}
