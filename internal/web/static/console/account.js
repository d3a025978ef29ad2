// The menu of the account: who is logged in, and the way out.

import { h, newID } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { session } from "../lib/session.js";
import { button, errorBox } from "./parts.js";

// account opens the menu.
export function account() {
  const id = newID("account");
  const out = errorBox();
  const { phone, role } = session.user();
  const leave = button({ name: "logout", kind: "primary", label: t("logout"), out }, async () => {
    await session.logout();
    dialog.close();
  });
  const dialog = h("dialog", { class: "sheet", "aria-labelledby": id, onclose: () => dialog.remove() },
    h("h2", { id }, phone), h("p", {}, t(`role.${role}`)), h("a", { href: "/", class: "link" }, t("access.shop")), out.element,
    h("div", { class: "actions" }, h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, t("back")), leave));
  document.body.append(dialog);
  dialog.showModal();
}
