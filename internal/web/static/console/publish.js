// The checklist of a sale, with the button that publishes it.

import { getMine, patchMine } from "../lib/api.js";
import { now } from "../lib/clock.js";
import { confirm } from "../lib/confirm.js";
import { h, show, text } from "../lib/dom.js";
import { duration, money, number, stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import { detailOf } from "./details.js";
import { button, errorBox, reading, section } from "./parts.js";

// The points of the list, with the fields of the voucher that they are about. The first of those is the one to change.
const points = {
  shop: ["shop_id"], price: ["pay_value", "actual_value", "currency"], window: ["end_at", "begin_at"], validity: ["valid_until"],
  stock: ["stock"], payment: ["sale"], picture: ["image_id"],
};
const offer = ["shop", "price", "validity"]; // what is wrong even when the sale is on
const signs = { holds: "✓", warning: "!", broken: "✕" };

// isOver reports whether a voucher that was published cannot be published again.
const isOver = (v) => v.status === "expired" || (v.status === "off" && v.type === "seckill" && Date.parse(v.end_at) <= now());

// secondsOf reads a duration of the server: 1h0m30s.
const secondsOf = (words) => [...words.matchAll(/([\d.]+)(h|m|s)/g)].reduce((sum, [, n, unit]) => sum + Math.round(n * { h: 3600, m: 60, s: 1 }[unit]), 0);

// checklist returns the panel of a sale. render(voucher) shows it, with the state of the list as the server has it;
// fix(field, point) returns the button that leads to a field, `actions` are shown beside the button that publishes, unsaved() reports whether the page has unsaved changes,
// and published() is called when the sale is published.
export function checklist(id, { fix, actions, unsaved, published }) {
  const post = intents();
  const out = errorBox();
  const summary = h("p", { class: "summary", role: "status" });
  const list = h("ul", { class: "checks" });
  const publish = button({ name: "publish", kind: "primary", label: t("publish.do"), out }, async () => {
    if ((await load()) > 0) return;
    if (unsaved()) return text(summary, t("publish.unsaved"));
    const facts = {
      price: money(current.pay_value, current.currency), value: money(current.actual_value, current.currency),
      stock: current.stock === undefined ? "" : number(current.stock), begin: current.begin_at && stamp(current.begin_at), end: current.end_at && stamp(current.end_at),
    };
    const means = t(current.type === "seckill" ? "publish.means" : "publish.meansVoucher", facts);
    if (!(await confirm(t("publish.sure", { title: current.title }), t("publish.do"), means))) return;
    try {
      if (current.status === "draft") await post(`/admin/vouchers/${id}/publish`);
      else await patchMine(`/admin/vouchers/${id}`, { body: { status: "on" } });
    } catch (problem) {
      await load();
      throw problem;
    }
    published();
  });
  const element = section(t("publish.title"), list);
  const bar = h("div", { class: "sticky" }, out.element, h("div", { class: "actions" }, summary, actions, publish));
  let current = null;
  show(element, false);
  show(bar, false);

  // load reads the list and returns the number of its problems.
  async function load() {
    const { problems, warnings } = await getMine(`/admin/vouchers/${id}/checklist`);
    const on = current.status === "on";
    const shown = Object.entries(points).filter(([name]) => (on ? offer.includes(name) : current.type === "seckill" || [...offer, "picture"].includes(name)));
    const rows = shown.map(([name, fields]) => {
      const of = (found) => found.filter((p) => fields.includes(p.field));
      return { name, problems: of(problems), warnings: of(warnings) };
    });
    const broken = rows.filter((r) => r.problems.length > 0).length;
    list.replaceChildren(...rows.map(row));
    text(summary, broken > 0 ? t("publish.broken", { n: number(broken) }) : t("publish.ready"));
    show(element, !on || broken > 0);
    show(bar, !on && session.may("operate"));
    return broken;
  }

  function row({ name, problems, warnings }) {
    const state = problems.length > 0 ? "broken" : warnings.length > 0 ? "warning" : "holds";
    const found = [...problems, ...warnings];
    return h("li", { "data-check": name, "data-ok": state },
      h("span", { class: "sign", "aria-hidden": "true" }, signs[state]),
      h("strong", {}, t(`check.${name}`)), h("span", { class: "word" }, t(`check.is.${state}`)),
      h("div", {}, found.map((p) => sentence(p, problems.includes(p)))),
      found.length > 0 && session.may("operate") ? fix(found[0].field, t(`check.${name}`)) : null);
  }

  function sentence(p, problem) {
    if (p.field !== "sale") return h("p", { class: "note" }, t(`check.${problem ? "problem" : "warning"}.${p.field}`));
    if (p.detail.startsWith("has a pay_timeout")) return h("p", { class: "note" }, t("check.warning.pay_timeout", { time: duration(current.pay_timeout) }));
    const short = /^lasts (\S+), so units that are not paid within (\S+) return/.exec(p.detail);
    if (short) {
      const [lasts, time] = short.slice(1).map((words) => duration(secondsOf(words)));
      return h("p", { class: "note" }, t("check.warning.lasts", { lasts, time }));
    }
    const [detail, lang] = detailOf(p.detail);
    return h("p", { class: "note" }, t("check.sale"), " ", h("span", { lang }, detail));
  }

  return {
    element, bar,
    render(v) {
      const before = current;
      current = v;
      if (isOver(v)) {
        show(element, false);
        show(bar, false);
        return;
      }
      if (before?.updated_at === v.updated_at && before.stock === v.stock) return;
      if (v.status !== "on" || before?.status !== "on") reading(out, load);
    },
  };
}
