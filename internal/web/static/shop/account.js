// The visitor's account: logout everywhere, download of all data, and deletion.

import { asUser } from "../lib/api.js";
import { confirm } from "../lib/confirm.js";
import { h, newID } from "../lib/dom.js";
import { errorIn } from "../lib/explain.js";
import { t } from "../lib/i18n.js";
import { singleFlight } from "../lib/intent.js";
import { save } from "../lib/save.js";
import { session } from "../lib/session.js";

const FILE = "seckill-data.json";
const TIMEOUT = 15_000; // an export takes longer than other answers

async function download() {
  const response = await asUser("GET", "/me/export", { timeout: TIMEOUT });
  save(await response.blob(), FILE);
}

// account opens the dialog.
export function account() {
  const id = newID("account");
  const error = h("p", { class: "error", role: "alert" });

  async function everywhere() {
    await session.logout({ everywhere: true });
    dialog.close();
  }

  async function erase() {
    if (!(await confirm(t("account.sure"), t("account.delete"), t("account.consequences")))) return;
    await session.erase();
    dialog.close();
  }

  function button(name, work) {
    const b = h("button", { type: "button", class: "quiet", "data-do": name }, t(`account.${name}`));
    b.addEventListener("click", singleFlight(b, errorIn(error), work));
    return b;
  }

  const dialog = h("dialog", { class: "sheet", "aria-labelledby": id, onclose: () => dialog.remove() },
    h("h2", { id }, t("account.title")),
    h("p", { class: "note" }, t("account.note")),
    button("everywhere", everywhere), button("download", download), button("delete", erase), error,
    h("div", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, t("back"))));
  document.body.append(dialog);
  dialog.showModal();
}
