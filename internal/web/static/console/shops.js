// The shops in which vouchers are redeemed.

import { get, patchMine } from "../lib/api.js";
import { h, text } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import { form } from "./form.js";
import { confirmAnother, errorBox, head, listing, pages, reading, section, statusLine } from "./parts.js";

const fields = [{ name: "name", required: true, max: 128 }, { name: "area", max: 128 }, { name: "address", max: 255 }, { name: "open_hours", max: 32 }];

const fieldsOf = (shop) => fields.map((f) => ({ kind: "text", empty: "", label: t(`shop.${f.name}`), value: shop?.[f.name], ...f }));

// all returns all shops, newest first.
export async function all() {
  const found = [];
  for (let cursor = ""; cursor !== null;) {
    const page = await get(`/shops?${new URLSearchParams({ limit: 100, ...(cursor && { cursor }) })}`);
    found.push(...page.items);
    cursor = page.next_cursor;
  }
  return found;
}

// list shows all shops and the form of a new one.
export function list(root) {
  const operates = session.may("operate");
  const shops = listing({
    caption: t("shops.title"), empty: t("shops.none"),
    columns: [
      { label: t("shop.name"), cell: (s) => (operates ? h("a", { href: `/console/shops/${s.id}` }, s.name) : s.name) },
      ...["area", "address", "open_hours"].map((name) => ({ label: t(`shop.${name}`), cell: (s) => s[name] || "–" })),
      { label: t("shop.id"), number: true, cell: (s) => s.id },
    ],
    read: pages("/shops"),
  });
  root.replaceChildren(...[head(t("shops.title"), h("p", {}, t("shops.lead"))), operates && section(t("shops.new"), make(shops.load)), shops.element].filter(Boolean));
  shops.load();
}

function make(created) {
  const post = intents({ lasting: true });
  const status = statusLine();
  const f = form({
    name: "shop", label: t("shops.create"), fields: fieldsOf(null), status, asks: true,
    work: async (values) => {
      if (!(await confirmAnother(post, "/admin/shops", values, (open) => open.name))) return;
      const shop = await post("/admin/shops", values);
      f.clear();
      status.show(t("shops.created", { name: shop.name }));
      await created();
    },
  });
  return f.element;
}

// one shows the form of a shop.
export function one(root, id) {
  const out = errorBox();
  const status = statusLine();
  const title = h("h1", { tabindex: -1 }, t("voucher.shop_id"));
  const place = h("div", {});
  root.replaceChildren(h("header", { class: "lead" }, title, h("a", { href: "/console/shops", class: "link" }, t("shops.back"))), out.element, place);
  reading(out, () => get(`/shops/${id}`)).then((shop) => {
    if (!shop) return;
    text(title, shop.name);
    const f = form({
      name: "shop", label: t("sale.save"), fields: fieldsOf(shop), changes: true, asks: true, status,
      work: async (values) => {
        if (Object.keys(values).length === 0) return status.show(t("sale.same"));
        const changed = await patchMine(`/admin/shops/${id}`, { body: values });
        f.markSaved(Object.keys(values));
        text(title, changed.name);
        status.show(t("sale.saved"));
      },
    });
    place.replaceChildren(section(t("shops.change"), f.element));
  });
}
