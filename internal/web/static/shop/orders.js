// The page of the visitor's orders, or of one order.

import { announce } from "../lib/announce.js";
import { confirm } from "../lib/confirm.js";
import { attr, h, newID, show, text } from "../lib/dom.js";
import { backoff } from "../lib/events.js";
import { explain, reference } from "../lib/explain.js";
import { languageOf, left, money, stamp, t } from "../lib/i18n.js";
import { icon } from "../lib/icon.js";
import { login } from "../lib/login.js";
import { moreButton } from "../lib/more.js";
import { session } from "../lib/session.js";
import { queueNote } from "./queue.js";
import * as mine from "./mine.js";
import { qr } from "./qr.js";
import * as sales from "./sales.js";
import * as shops from "./shops.js";

// mount shows all orders, or the order with the id `only`.
export function mount(root, only) {
  const cards = new Map();
  const heading = h("h1", { tabindex: -1 }, t(only ? "orders.one" : "orders.title"));
  const all = h("a", { href: "/orders", class: "link" }, icon("back"), t("orders.all"));
  const list = h("ul", { class: "orders", "data-one": Boolean(only) });
  const empty = h("p", { class: "empty" });
  const error = h("p", { class: "banner", role: "status" });
  const enter = h("button", { type: "button", class: "primary", onclick: () => login() }, t("login"));
  const shop = h("a", { href: "/", class: "button primary" }, t("orders.shop"));
  const more = moreButton("more", t("more"), () => mine.load(true));
  let missing = false;
  let unreadable = null; // the Problem of reading the order `only`
  let failures = 0;
  let retry = 0;
  let stopReading = null;
  root.replaceChildren(h("header", { class: "lead" }, all, heading), error, list, empty, h("div", { class: "center" }, enter, shop, more.element));

  function find() {
    clearTimeout(retry);
    missing = false;
    if (!only || !session.user() || mine.order(only)) return;
    mine.fetchOne(only).then(() => (unreadable = null), (problem) => {
      missing = ["not_found", "invalid_request"].includes(problem.code);
      unreadable = missing ? null : problem;
      if (unreadable && list.isConnected) retry = setTimeout(find, problem.retryAfter + backoff(failures++, 1000, 15_000));
    }).then(() => list.isConnected && render());
  }

  function render() {
    const user = session.user();
    const { state, problem: unread } = mine.loadState();
    const orders = !user ? [] : only ? [mine.order(only)].filter(Boolean) : mine.list();
    const problem = (orders.length === 0 && unreadable) || unread;
    const loading = session.pending() || (user && state !== "loaded" && !problem);
    const guest = !user && !loading;
    text(empty, guest ? t("orders.guest") : missing ? t("orders.missing") : loading || only ? t("loading") : t("orders.none"));
    show(empty, orders.length === 0 && !problem);
    text(error, problem ? `${explain(problem)} ${t("store.retrying")}` : "");
    show(error, user && problem);
    show(enter, guest);
    show(shop, user && !loading && orders.length === 0 && !problem && (!only || missing));
    show(all, only);
    const known = new Set(cards.keys());
    for (const [id, c] of cards) {
      if (orders.some((o) => o.id === id)) continue;
      c.element.remove();
      cards.delete(id);
    }
    // The orders of the list share one read of the sales: those that have ended lead back to theirs while it is open.
    if (!only && orders.some((o) => !mine.active(o) || o.title === undefined)) stopReading ??= sales.watch();
    let at = list.firstChild;
    for (const o of orders) {
      let c = cards.get(o.id);
      if (!c) {
        c = card(o.id, Boolean(only));
        cards.set(o.id, c);
        list.insertBefore(c.element, at);
      } else if (c.element === at) at = at.nextSibling;
      c.update();
    }
    more.update(user && !only && mine.hasMore(), () => [...list.children].find((li) => !known.has(li.dataset.order)));
  }

  const ends = [
    mine.onChange(render), sales.onChange(render), shops.onChange(render), session.on(() => { find(); render(); }),
  ];
  const timer = setInterval(() => { for (const c of cards.values()) c.update(); }, 1000);
  if (session.user()) mine.load();
  mine.pin(only ?? "");
  find();
  render();
  return () => {
    clearInterval(timer);
    clearTimeout(retry);
    mine.pin("");
    stopReading?.();
    for (const end of ends) end();
  };
}

// boughtOf returns what an order is for: title, rules and shop. An order that was just queued does not say it yet, and has
// that of its voucher.
const boughtOf = (o, v) => (o.title === undefined ? (v ?? {}) : o);

// card returns the card of an order: {element, update}; update() renders the current state. `open` means that it is the
// only one on the page, with its code and the terms.
function card(id, open) {
  const alone = open;
  const titleID = newID("order");
  const name = h("a", alone ? {} : { href: `/orders/${id}` });
  const title = h("h2", { id: titleID }, name);
  const of = h("p", { class: "sub" });
  const rules = h("p", { class: "note terms" });
  const at = h("span", {});
  const chip = h("span", { class: "chip" });
  const amount = h("strong", { class: "amount" });
  const facts = h("p", { class: "facts" }, at, alone ? ` · ${t("orders.number", { id })}` : "");
  const deadline = h("span", {});
  const due = h("p", { class: "due" }, icon("clock"), deadline);
  const error = h("p", { class: "error", role: "alert" });
  const ref = h("p", { class: "reference" });
  const button = (name, kind, press) => {
    const b = h("button", { type: "button", class: kind, "data-do": name, "aria-describedby": titleID, onclick: () => b.getAttribute("aria-disabled") || press() });
    return b;
  };
  const pay = button("pay", "primary", payNow);
  const again = h("a", { class: "button primary", "data-do": "again" }, t("orders.again"));
  const cancel = button("cancel", "quiet", () => confirmAndAct("cancel"));
  const refund = button("refund", "quiet", () => confirmAndAct("refund"));
  const codeID = newID("code");
  const toggle = h("button", { type: "button", "data-do": "code", "aria-expanded": String(open), "aria-controls": codeID, onclick: () => { open = !open; update(); } });
  const picture = h("div", { class: "picture" });
  const code = h("code", { translate: "no" });
  const validity = h("p", { class: "note" });
  const pass = h("div", { class: "pass", id: codeID }, picture,
    h("div", {}, h("p", { class: "label" }, t("orders.code")), code, h("p", { class: "note" }, t("orders.show")), validity));
  const element = h("li", { class: "order", "data-order": id, "aria-labelledby": titleID },
    h("div", { class: "head" }, title, chip), of,
    h("div", { class: "row" }, facts, amount),
    due, pass, rules, error, ref,
    h("div", { class: "actions" }, refund, cancel, toggle, pay, again));
  let was = null;
  let place = "";

  async function confirmAndAct(action) {
    if (await confirm(t(`confirm.${action}`), t(`do.${action}`))) mine.act(id, action);
  }

  // payNow says what is charged, for what, and how.
  async function payNow() {
    const o = mine.order(id);
    const amount = money(o.amount, o.currency);
    const facts = [
      h("p", { lang: name.lang }, name.textContent),
      h("p", { class: "row" }, t("pay.total"), h("strong", { class: "amount" }, amount)),
      h("p", {}, t("sandbox" in document.documentElement.dataset ? "pay.sandbox" : "pay.provider")),
    ];
    if (await confirm(t("pay.title"), t("pay.now", { amount }), facts)) mine.act(id, "pay");
  }

  function update() {
    const o = mine.order(id);
    if (!o) return;
    const v = alone ? sales.one(o.voucher_id) : sales.sale(o.voucher_id);
    const { action, problem } = mine.doing(id);
    const working = Boolean(action) && !problem;
    const unpaid = o.status === "pending_payment";
    const { title: bought } = boughtOf(o, v);
    text(name, bought || t("orders.voucher", { id: o.voucher_id }));
    if (alone) attr(name, "href", v ? `/sales/${o.voucher_id}` : null); // a sale that was taken down has no page
    attr(name, "lang", bought && languageOf(bought));
    showBought(o, v);
    const late = unpaid && mine.timeLeft(o) <= 0;
    attr(element, "data-status", o.status);
    const status = working && action === "pay" && unpaid ? t("status.paying") : t(`status.${o.status}`);
    text(chip, status);
    text(at, stamp(o.created_at));
    text(amount, o.amount === undefined ? "" : money(o.amount, o.currency));
    showDue(o, unpaid, working);
    for (const [b, name, shown] of [[pay, "pay", unpaid], [cancel, "cancel", unpaid], [refund, "refund", o.status === "paid"]]) {
      show(b, shown);
      text(b, working && action === name ? t("working") : t(`do.${name}`));
      attr(b, "aria-disabled", working || (late && name !== "refund") ? "true" : null);
    }
    attr(again, "href", `/sales/${o.voucher_id}`);
    show(again, !mine.active(o) && v && ["on_sale", "upcoming", "sold_out"].includes(sales.stateOf(v)));
    showCode(o);
    text(error, problem ? explain(problem) : "");
    show(error, problem);
    text(ref, problem ? reference(problem) : "");
    show(ref, problem?.requestId);
    if (was !== null && was !== status) announce(`${title.textContent}: ${status}`);
    was = status;
  }

  function showDue(o, unpaid, working) {
    const rest = mine.timeLeft(o);
    const words = {
      queued: () => queueNote(o),
      pending_payment: () => (working ? t("orders.paying") : rest > 0 ? t("orders.due", { left: left(rest, true) }) : t("orders.late")),
      cancelled: () => o.cancelled_at && (mine.expired(o)
        ? t("orders.expired", { at: stamp(o.expires_at) }) : t("orders.cancelled", { at: stamp(o.cancelled_at) })),
      failed: () => explain({ code: o.reason || "internal" }),
      refunding: () => t("orders.refunding"),
      redeemed: () => o.redeemed_at && t("orders.redeemed", { at: stamp(o.redeemed_at) }),
      refunded: () => o.refunded_at && t("orders.refunded", { at: stamp(o.refunded_at) }),
    }[o.status];
    text(deadline, (words && words()) || "");
    show(due, deadline.textContent);
  }

  // showBought shows shop and rules as they were bought, and where the shop is now.
  function showBought(o, v) {
    const { rules: terms, shop_id: shopID, shop_name: shopName } = boughtOf(o, v);
    const s = shopID && (alone || !shopName) ? shops.shop(shopID) : null;
    const name = shopName || s?.name;
    const address = alone ? shops.addressOf(s) : "";
    const where = [name, address, alone && s?.open_hours].filter(Boolean);
    if (place !== where.join(" · ")) {
      place = where.join(" · ");
      of.replaceChildren(...where.flatMap((part) => [" · ", h("bdi", {}, part === address ? shops.mapLink(part) : part)]).slice(1));
    }
    attr(of, "lang", languageOf(where.join("")));
    show(of, where.length > 0);
    text(rules, (alone && terms) || "");
    attr(rules, "lang", languageOf(rules.textContent));
    show(rules, rules.textContent);
  }

  function showCode(o) {
    const has = o.status === "paid" && o.redeem_code;
    show(toggle, has);
    show(pass, has && open);
    text(toggle, t(open ? "orders.hideCode" : "orders.showCode"));
    attr(toggle, "aria-expanded", String(open));
    attr(toggle, "class", open ? "quiet" : "primary");
    text(validity, [["validFrom", o.valid_from], ["validUntil", o.valid_until]]
      .filter(([, time]) => time).map(([name, time]) => `${t(`sale.${name}`)} ${stamp(time)}`).join(" · "));
    show(validity, validity.textContent);
    if (!has) {
      picture.replaceChildren();
    } else if (code.textContent !== o.redeem_code || !picture.firstChild) {
      text(code, o.redeem_code);
      picture.replaceChildren(qr(o.redeem_code, t("orders.qr", { code: o.redeem_code })));
    }
  }

  return { element, update };
}
