// The page of one sale: its facts and live figures; of a draft, the forms to finish and publish it.

import { deleteMine, getMine, orNull, patchMine } from "../lib/api.js";
import { announce } from "../lib/announce.js";
import { confirm } from "../lib/confirm.js";
import { attr, h, show, text } from "../lib/dom.js";
import { go, goFrom } from "../lib/frame.js";
import { money, number, stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import { forms } from "./edit.js";
import { formatMinutes } from "./form.js";
import { panel } from "./panel.js";
import { button, chip, errorBox, factList, reading, section, setChip, statusLine } from "./parts.js";
import { checklist } from "./publish.js";
import { refunds } from "./refunds.js";
import { room } from "./room.js";
import { stateOf } from "./sales.js";
import { all as allShops } from "./shops.js";

// mount shows the sale of the id.
export function mount(root, id) {
  const title = h("h1", { tabindex: -1 }, t("sale.title"));
  const state = chip("");
  const top = h("header", { class: "lead" }, h("div", { class: "head" }, title, state), h("a", { href: "/console/sales", class: "link" }, t("sales.back")));
  const out = errorBox();
  const sub = h("p", { class: "sub" });
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
  const unpublish = button({ name: "unpublish", label: t("sale.unpublish"), out }, async () => {
    if (!(await confirm(await offQuestion(), t("sale.unpublish"), t("sale.offNote")))) return;
    update(await patchMine(`/admin/vouchers/${id}`, { body: { status: "off" } }));
  });
  const remove = button({ name: "delete", label: t("sale.delete"), out }, async () => {
    if (!(await confirm(t("sale.sure.delete", { title: current.title }), t("sale.delete"), t("sale.deleteNote")))) return;
    await deleteMine(`/admin/vouchers/${id}`);
    goFrom(own, "/console/sales?tab=drafts");
    announce(t("sale.deleted", { title: current.title }));
  });
  const refund = refunds(id);
  const link = (path, key, kind = "link") => h("a", { href: path, class: kind }, t(key));
  const own = `/console/sales/${id}`;
  const editPath = `${own}/edit`;
  const change = [link(editPath, "sale.change", "button primary"), link(`${editPath}?field=stock`, "sale.stock", "button quiet")];
  const view = h("a", { target: "_blank", class: "button quiet", "data-do": "view" });
  const copy = link(`/console/new?from=${id}`, "sale.clone", "button quiet");
  const orders = link(`/console/orders?voucher_id=${id}`, "sale.orders", "button quiet");
  const operates = session.may("operate");
  const about = h("div", { class: "about", hidden: true }, sub,
    h("div", { class: "actions start" }, change, orders, view, operates ? copy : null, unpublish, refund.start, revoke), revoked.element, refund.element);
  const terms = section(t("sales.details"), list.element, h("div", { class: "actions start" }, link(`/console/audit?voucher_id=${id}`, "sale.audit")));
  const publishing = checklist(id, {
    fix: (field, point) => {
      const lead = () => (edit ? edit.focus(field) : go(`${editPath}?field=${field}`));
      return h("button", { type: "button", class: "link", "data-do": "fix", "aria-label": t("publish.fixOf", { point }), onclick: lead }, t("publish.fix"));
    },
    actions: operates ? [remove, h("a", { href: `/sales/${id}?preview`, target: "_blank", class: "button quiet", "data-do": "preview" }, t("sale.preview"))] : [],
    unsaved: () => edit?.edited(),
    published: () => {
      goFrom(own, own);
      announce(t("publish.done"));
    },
  });
  const place = h("div", {});
  let live = null;
  let edit = null;
  let current = null; // the voucher as last received

  function render(v) {
    current = v;
    text(title, v.title);
    text(sub, v.sub_title);
    setChip(state, ...stateOf(v));
    attr(about, "data-state", v.state);
    const values = {
      id: v.id, begin_at: v.begin_at < v.end_at && stamp(v.begin_at), end_at: v.begin_at < v.end_at && stamp(v.end_at),
      pay_value: money(v.pay_value, v.currency), actual_value: money(v.actual_value, v.currency),
      stock: v.stock === undefined ? "" : number(v.stock), limit_per_user: v.limit_per_user,
      valid_from: v.valid_from && stamp(v.valid_from), valid_until: v.valid_until && stamp(v.valid_until),
      "entry.mode": v.entry && t(`voucher.entry.${v.entry.mode}`), "entry.opens_at": v.entry?.opens_at && stamp(v.entry.opens_at),
      "entry.pass_ttl": v.entry?.pass_ttl, "entry.challenge": v.entry?.challenge && t(`voucher.entry.challenge.${v.entry.challenge}`),
      pay_timeout: v.pay_timeout && formatMinutes(v.pay_timeout), unpaid_limit: v.unpaid_limit, segments: v.segments, rules: v.rules,
    };
    for (const el of change) show(el, operates && v.status !== "draft"); // the page of a draft has the forms
    show(unpublish, operates && v.status === "on");
    show(orders, v.status !== "draft");
    show(copy, v.type === "seckill");
    show(revoke, operates && v.status === "on" && v.entry && v.entry.mode !== "open");
    show(view, v.type === "seckill");
    show(remove, v.status === "draft");
    show(about, v.status !== "draft" || !operates);
    attr(view, "href", v.status === "on" ? `/sales/${id}` : `/sales/${id}?preview`);
    text(view, t(v.status === "on" ? "sale.view" : "sale.preview"));
    show(terms, v.status !== "draft" || !operates);
    refund.render(v);
    waitingRoom.render(v);
    list.set(Object.entries(values).map(([name, value]) => ({ id: name, name: t(`voucher.${name}`), value })));
    edit?.reset(v);
    publishing.render(v);
  }

  // update renders a voucher from an answer. With the first one it adds the live panel or, for a draft, the forms, which offer
  // the shops.
  function update(v, shops) {
    const first = current === null;
    render(v);
    if (!first) return;
    if (v.status === "draft") {
      if (!operates) return;
      edit = forms(v, shops, update);
      place.append(edit.element);
      return;
    }
    if (v.type !== "seckill") return;
    live = panel(id, ({ voucher, room, orders }) => {
      waitingRoom.showFigures(room);
      refund.count(orders);
      // Statistics gathered before the last change would revert it on the page.
      if (Date.parse(voucher.updated_at) >= Date.parse(current.updated_at)) render(voucher);
    });
    place.append(waitingRoom.element, live.element);
  }

  // offQuestion says what becomes of the orders of the sale, if they are counted: a sale can be taken off in any case.
  async function offQuestion() {
    const { title } = current;
    const stats = await orNull(getMine(`/admin/vouchers/${id}/stats?hour=false`));
    if (!stats?.checked_at) return t("sale.sure.offPlain", { title });
    const { orders } = stats;
    const [unpaid, paid] = ["pending_payment", "paid"].map((status) => number(orders[status] ?? 0));
    return t("sale.sure.off", { title, unpaid, paid });
  }

  show(terms, false);
  root.replaceChildren(top, out.element, about, publishing.element, place, terms, publishing.bar);
  reading(out, async () => {
    const v = await getMine(`/vouchers/${id}`);
    return [v, v.status === "draft" && operates ? await allShops() : []];
  }).then((found) => found && update(...found));
  return () => live?.end();
}
