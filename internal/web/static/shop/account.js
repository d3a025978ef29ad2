// The visitor's account: logout everywhere, download of all data, and deletion.

import { asUser } from "../lib/api.js";
import { confirm } from "../lib/confirm.js";
import { attr, h, newID, text } from "../lib/dom.js";
import { explain } from "../lib/explain.js";
import { t } from "../lib/i18n.js";
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
  let working = false;

  async function work(what) {
    if (working) return;
    working = true;
    text(error, "");
    attr(dialog, "aria-busy", true);
    try {
      await what();
    } catch (problem) {
      text(error, explain(problem));
    } finally {
      working = false;
      attr(dialog, "aria-busy", null);
    }
  }

  async function everywhere() {
    await session.logout({ everywhere: true });
    dialog.close();
  }

  async function erase() {
    if (!(await confirm(t("account.sure"), t("account.delete"), t("account.consequences")))) return;
    await session.erase();
    dialog.close();
  }

  const button = (name, what) => h("button", { type: "button", class: "quiet", "data-do": name, onclick: () => work(what) }, t(`account.${name}`));
  const dialog = h("dialog", { class: "sheet", "aria-labelledby": id, onclose: () => dialog.remove() },
    h("h2", { id }, t("account.title")),
    h("p", { class: "note" }, t("account.note")),
    button("everywhere", everywhere), button("download", download), button("delete", erase), error,
    h("div", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, t("back"))));
  document.body.append(dialog);
  dialog.showModal();
}
