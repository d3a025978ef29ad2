// The page of one sale: live figures and forms to change it.

import { getMine, patchMine } from "../lib/api.js";
import { now } from "../lib/clock.js";
import { confirm } from "../lib/confirm.js";
import { attr, h, show, text } from "../lib/dom.js";
import { money, number, stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import { form, formatAmount, localTime } from "./form.js";
import { panel } from "./panel.js";
import { button, chip, confirmAnother, errorBox, factList, section, setChip, statusLine } from "./parts.js";
import { refunds } from "./refunds.js";
import { room } from "./room.js";
import { body, fields, stateOf, validate } from "./sales.js";

const MAX_UNITS = 1_000_000_000;

// mount shows the sale of the id.
export function mount(root, id) {
  const title = h("h1", { tabindex: -1 }, t("sale.title"));
  const top = h("header", { class: "lead" }, title, h("a", { href: "/console", class: "link" }, t("sales.back")));
  const out = errorBox();
  const sub = h("p", { class: "sub" });
  const state = chip("");
  const list = factList();
  const postRoom = intents();
  const changeRoom = async (body) => update(await postRoom(`/admin/vouchers/${id}/room`, body));
  const waitingRoom = room(changeRoom);
  const revoked = statusLine();
  const revoke = button({ name: "revoke", label: t("sale.revoke"), out }, async () => {
    revoked.clear();
    if (!(await confirm(t("sale.sure.revoke", { title: current.title }), t("sale.revoke")))) return;
    await changeRoom({ revoke: true });
    revoked.show(t("sale.revoked"));
  });
  const refund = refunds(id);
  const about = h("div", { class: "panel", hidden: true }, h("div", { class: "head" }, sub, state), list.element,
    h("div", { class: "actions" },
      h("a", { href: `/console/orders?voucher_id=${id}`, class: "link" }, t("sale.orders")),
      h("a", { href: `/console/audit?voucher_id=${id}`, class: "link" }, t("sale.audit")), refund.start, revoke), revoked.element, refund.element);
  const forms = h("div", { class: "forms" });
  let live = null;
  let edit = null;
  let unmounted = false;
  let current = null; // the voucher as last received

  function render(v) {
    current = v;
    text(title, v.title);
    text(sub, v.sub_title);
    setChip(state, ...stateOf(v));
    attr(about, "data-state", v.state);
    show(about, true);
    const values = {
      id: v.id, begin_at: v.begin_at && stamp(v.begin_at), end_at: v.end_at && stamp(v.end_at),
      pay_value: money(v.pay_value, v.currency), actual_value: money(v.actual_value, v.currency),
      stock: v.stock === undefined ? "" : number(v.stock), limit_per_user: v.limit_per_user,
      "entry.mode": v.entry && t(`voucher.entry.${v.entry.mode}`), "entry.opens_at": v.entry?.opens_at && stamp(v.entry.opens_at),
      "entry.pass_ttl": v.entry?.pass_ttl, "entry.challenge": v.entry?.challenge && t(`voucher.entry.challenge.${v.entry.challenge}`),
      pay_timeout: v.pay_timeout, unpaid_limit: v.unpaid_limit, segments: v.segments, rules: v.rules,
    };
    show(revoke, session.may("operate") && v.entry && v.entry.mode !== "open");
    refund.render(v);
    waitingRoom.render(v);
    list.set(Object.entries(values).map(([name, value]) => ({ id: name, name: t(`voucher.${name}`), value })));
    edit?.reset(formValues(v));
  }

  // update renders a voucher from an answer, and adds the forms and the panel with the first one.
  function update(v) {
    if (unmounted) return;
    const first = current === null;
    render(v);
    if (!first) return;
    if (session.may("operate")) {
      edit = editor(v);
      forms.append(section(t("sale.change"), edit.element));
    }
    if (v.type !== "seckill") return;
    if (session.may("operate")) forms.append(section(t("sale.stock"), stock()));
    live = panel(id, ({ voucher, room }) => {
      waitingRoom.showFigures(room);
      // Statistics gathered before the last change would revert it on the page.
      if (Date.parse(voucher.updated_at) >= Date.parse(current.updated_at)) render(voucher);
    });
    about.after(waitingRoom.element, live.element);
  }

  function editor(v) {
    const status = statusLine();
    const f = form({
      name: "change", label: t("sale.save"), changes: true, check: validate, children: [status.element],
      fields: [
        ...fields(v, () => v.currency).map((field) => ({ ...field, value: formValues(v)[field.name] })),
        { name: "status", kind: "choice", label: t("voucher.status"), value: v.status, options: ["on", "off", "expired"].map((s) => [s, t(`voucher.${s}`)]) },
      ],
      work: async (values) => {
        status.clear();
        if (Object.keys(values).length === 0) return status.show(t("sale.same"));
        for (const question of confirmations(values)) if (!(await confirm(t(`sale.sure.${question}`, { title: current.title }), t(`sale.do.${question}`)))) return;
        const changed = await patchMine(`/admin/vouchers/${id}`, { body: body(values, f) });
        f.markSaved(Object.keys(values));
        update(changed);
        status.show(t("sale.saved"));
      },
    });
    return f;
  }

  // confirmations returns the names of the questions to ask before a change that ends the sale for its buyers.
  const confirmations = (values) => [
    values.status !== undefined && values.status !== "on" && current.status === "on" && "off",
    values.end_at !== undefined && Date.parse(values.end_at) <= now() && "end",
  ].filter(Boolean);

  function stock() {
    const post = intents({ lasting: true });
    const path = `/admin/vouchers/${id}/stock`;
    const status = statusLine();
    const open = h("p", { class: "note", "data-open": true });
    const showOpen = () => {
      const body = post.open(path);
      text(open, body ? t("sale.open", body) : "");
      show(open, body);
    };
    const f = form({
      name: "stock", label: t("sale.apply"), children: [open, status.element],
      fields: [
        { name: "delta", kind: "whole", label: t("sale.delta"), note: t("sale.deltaNote"), required: true, min: -MAX_UNITS, max: MAX_UNITS },
        { name: "reason", kind: "text", label: t("sale.reason"), note: t("sale.reasonNote"), required: true, max: 255 },
      ],
      check: (values) => (values.delta === 0 ? { delta: t("form.zero") } : {}),
      work: async (values) => {
        status.clear();
        if (!(await confirmAnother(post, path, values, (open) => `${open.delta}, ${open.reason}`))) return;
        if (values.delta < 0 && !(await confirm(t("sale.sure.take", { n: number(-values.delta), title: current.title }), t("sale.apply")))) return;
        const v = await post(path, values).finally(showOpen).catch(async (problem) => {
          if (problem.code !== "invalid_state" || values.delta > 0) throw problem;
          update(await getMine(`/vouchers/${id}`));
          f.showErrors({ delta: t("sale.free", { n: number(current.stock) }) });
        });
        if (!v) return;
        f.clear();
        update(v);
        status.show(t("sale.stockUpdated", { n: number(v.stock) }));
      },
    });
    if (post.open(path) && f.edited().length === 0) f.write(Object.entries(post.open(path)));
    showOpen();
    return f.element;
  }

  root.replaceChildren(top, out.element, about, forms);
  getMine(`/vouchers/${id}`).then(update, (problem) => {
    if (!problem.code) throw problem;
    out.show(problem);
  });
  return () => {
    unmounted = true;
    live?.end();
    refund.end();
  };
}

const LOBBY = 600_000; // ms; the default of entry.opens_at is so long before the start
const PASS_TTL = { pass: 10, room: 120 }; // the defaults

// formValues returns a voucher's values as its form shows them. Defaults that follow other fields are shown as empty.
function formValues(v) {
  const all = { ...v, pay_value: formatAmount(v.pay_value, v.currency), actual_value: formatAmount(v.actual_value, v.currency), limit_per_user: String(v.limit_per_user) };
  for (const name of ["pay_timeout", "unpaid_limit"]) all[name] = String(v[name] ?? "");
  all.segments = String(v.segments ?? 1);
  for (const at of ["begin_at", "end_at"]) if (v[at]) all[at] = localTime(v[at]);
  if (v.entry) {
    const { mode, opens_at: opens, rate = "", pass_ttl: ttl, challenge = "off" } = v.entry;
    all["entry.mode"] = mode;
    all["entry.opens_at"] = opens && Date.parse(v.begin_at) - Date.parse(opens) !== LOBBY ? localTime(opens) : "";
    all["entry.rate"] = String(rate);
    all["entry.pass_ttl"] = ttl === undefined || ttl === PASS_TTL[mode] ? "" : String(ttl);
    all["entry.challenge"] = challenge;
  }
  return all;
}
