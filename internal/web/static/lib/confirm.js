// A confirmation dialog for actions that cannot be undone.

import { h, newID } from "./dom.js";
import { t } from "./i18n.js";

// confirm shows a question, with an optional explanation of words or elements, and resolves to true if the button labelled
// `yes` was pressed.
export function confirm(question, yes, explanation = "") {
  return new Promise((resolve) => {
    const id = newID("confirm");
    const why = explanation && newID("why");
    let agreed = false;
    const agree = ({ detail }) => {
      if (detail > 1) return; // a double click on the button that opened this
      agreed = true;
      dialog.close();
    };
    const dialog = h("dialog", { class: "sheet", "aria-labelledby": id, "aria-describedby": why || null, onclose: () => { dialog.remove(); resolve(agreed); } },
      h("h2", { id }, question), explanation ? h("div", { id: why, class: "note" }, explanation) : null,
      h("div", { class: "actions" },
        h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, t("back")),
        h("button", { type: "button", class: "primary", onclick: agree }, yes)));
    document.body.append(dialog);
    dialog.showModal();
  });
}
