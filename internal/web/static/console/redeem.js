// Redeeming by the buyer's code: at a counter, with the keyboard, a hand scanner or the camera.

import { postMine } from "../lib/api.js";
import * as clock from "../lib/clock.js";
import { attr, focusPage, h, newID, show } from "../lib/dom.js";
import { money, stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import { camera } from "./camera.js";
import { form } from "./form.js";
import { amount, canUndo, pathOf, statusChip, undo } from "./orders.js";
import { button, errorBox, facts, head, section, statusLine } from "./parts.js";

// refusal returns why an order cannot be redeemed now; "" if it can.
function refusal(order, by) {
  const who = by ? by.phone || by.user_id : "";
  if (order.status === "redeemed") return t(who ? "redeem.usedBy" : "redeem.used", { at: stamp(order.redeemed_at), who });
  if (order.status !== "paid") return t("redeem.not", { status: t(`status.${order.status}`) });
  if (order.valid_from && clock.now() < Date.parse(order.valid_from)) return t("redeem.early", { at: stamp(order.valid_from) });
  if (order.valid_until && clock.now() >= Date.parse(order.valid_until)) return t("redeem.late", { at: stamp(order.valid_until) });
  return "";
}

// mount shows the page: it shows what a code stands for, which one more press redeems.
export function mount(root) {
  const post = intents();
  const status = statusLine();
  const out = errorBox();
  const shown = h("div", { class: "redemption", "data-redemption": true });

  const undoOf = (order, code) => undo(async (reason) => {
    status.clear();
    await post("/admin/redeem/undo", { code, reason });
    show(shown, false);
    status.show(t("redeem.undone", { id: order.id }));
    input.focus();
  });

  async function preview(code) {
    try {
      const found = await postMine("/admin/redeem/preview", { body: { code } });
      if (asked === code) render(found, code);
    } catch (problem) {
      if (asked !== code) return; // another code was entered meanwhile
      if (problem.errors?.some((e) => e.field === "code") && f.showErrors({ code: t("invalid.code") })) return;
      if (!problem.shopName) throw problem;
      attr(shown, "data-verdict", "no");
      shown.replaceChildren(h("p", { class: "shop" }, problem.shopName), h("p", { class: "verdict", role: "alert" }, t("redeem.otherShop")));
      show(shown, true);
    }
  }

  function render({ order, voucher, redeemed_by: by }, code) {
    const shop = newID("shop");
    const title = newID("title");
    const use = button({ name: "use-code", kind: "primary", label: t("move.redeem"), about: `${shop} ${title}`, out }, async () => {
      try {
        await post("/admin/redeem", { code });
      } catch (problem) {
        if (problem.code !== "invalid_state") throw problem;
        await preview(code); // it was used meanwhile: show when
        if (input.value.trim() !== code) return;
        input.focus();
        input.select();
        return;
      }
      status.show(t("redeem.done", { title: order.title, id: order.id }));
      if (input.value.trim() === code) f.clear(); // the next code may be in the field
      if (!use.isConnected) return;
      attr(shown, "data-verdict", null);
      shown.replaceChildren(undoOf(order, code));
      input.focus();
    });
    const no = refusal(order, by);
    attr(shown, "data-verdict", no ? "no" : "yes");
    shown.replaceChildren(
      h("p", { class: "shop", id: shop }, order.shop_name),
      h("div", { class: "head" }, h("strong", { id: title }, order.title), statusChip(order)),
      no ? h("p", { class: "verdict", role: "alert" }, no) : "",
      facts([
        [t("voucher.sub_title"), order.sub_title], [t("voucher.actual_value"), money(voucher.actual_value, voucher.currency)],
        [t("redeem.paid"), amount(order)], [t("voucher.valid_from"), order.valid_from && stamp(order.valid_from)],
        [t("voucher.valid_until"), order.valid_until && stamp(order.valid_until)],
        [t("orders.phone"), order.phone], [t("orders.paid_at"), order.paid_at && stamp(order.paid_at)],
        [t("orders.id"), session.may("read") ? h("a", { href: pathOf(order) }, order.id) : order.id], [t("voucher.rules"), order.rules],
      ]),
      no ? "" : h("div", { class: "actions start" }, use),
      ...(canUndo(order) ? [undoOf(order, code)] : []));
    show(shown, true);
    if (!no && input.value.trim() === code) use.focus(); // otherwise the next code is being typed, and its Enter would redeem this one
  }

  const f = form({
    name: "redeem", label: t("redeem.check"),
    fields: [{ name: "code", kind: "text", label: t("redeem.code"), required: true, max: 64 }],
    work: async () => {
      status.clear();
      out.clear();
      show(shown, false);
      let code;
      do {
        code = asked;
        await preview(code);
      } while (asked !== code);
    },
  });
  const input = f.element.querySelector("input");
  let asked = ""; // the code that was entered last, perhaps while another one was being checked
  f.element.addEventListener("submit", () => {
    asked = input.value.trim() || asked;
    input.select(); // the next scan replaces it
  }, { capture: true });
  const scanner = camera((code) => {
    f.write([["code", code]]);
    f.element.requestSubmit();
  });
  show(shown, false);
  const counter = section(t("redeem.title"), f.element, scanner.element, out.element, status.element, shown);
  attr(counter, "data-counter", true);
  attr(input, "data-first", true); // for hand scanners
  // A hand scanner types where the focus is. Its Enter would press the button for the code before.
  counter.addEventListener("keydown", (event) => {
    const types = event.key.length === 1 && event.key !== " " && !event.ctrlKey && !event.metaKey && !event.altKey;
    if (!types || event.target.matches("input")) return;
    input.focus();
    input.select();
  });
  root.replaceChildren(head(t("redeem.page")), counter);
  focusPage();
  return scanner.end;
}
