// The login dialog: a phone number, then the code sent to it and, for users with a second factor, the password of their
// authenticator app. The visitor's action continues afterwards.

import { now } from "./clock.js";
import { attr, focusPage, h, newID, show, text } from "./dom.js";
import { explain } from "./explain.js";
import { duration, hour, t } from "./i18n.js";
import { once } from "./intent.js";
import { session } from "./session.js";

const VALID = 120_000; // ms; how long a code is valid

let open = null;

// quota reports whether a refusal is that of a day's codes: no code that was sent before is valid until then.
const quota = (problem) => problem.retryAfter > VALID;

// login opens the dialog and resolves to whether the visitor has logged in. Concurrent calls share one dialog. `again` means
// that the session ended while it was in use: the dialog says so and has the number.
export function login({ again = false } = {}) {
  open ??= openDialog(again).finally(() => (open = null));
  return open;
}

// demoAccounts offers the accounts of a demo, each of which logs in with one press; null outside of demo mode.
function demoAccounts(choose) {
  const accounts = (document.documentElement.dataset.demo ?? "").split(";").filter(Boolean).map((a) => a.split(" "));
  if (accounts.length === 0) return null;
  return h("div", { class: "demo note" },
    h("p", {}, t("login.demoAccounts")),
    h("ul", {}, accounts.map(([role, number]) => h("li", {}, h("button", {
      type: "button", class: "quiet", "data-role": role, onclick: () => choose(number),
    }, t(`role.${role}`), " ", h("span", { class: "number" }, number))))));
}

function openDialog(again) {
  return new Promise((resolve) => {
    const ids = { title: newID("login"), phone: newID("phone"), format: newID("format"), code: newID("code"), note: newID("note"), error: newID("error"), totp: newID("totp"), totpNote: newID("note") };
    const phone = h("input", {
      id: ids.phone, type: "tel", name: "phone", autocomplete: "tel", inputmode: "tel", required: true,
      "aria-describedby": `${ids.format} ${ids.error}`, oninput: () => render(),
    });
    const code = h("input", {
      id: ids.code, type: "text", name: "code", autocomplete: "one-time-code", inputmode: "numeric",
      "aria-describedby": `${ids.note} ${ids.error}`,
    });
    const totp = h("input", {
      id: ids.totp, type: "text", name: "totp", autocomplete: "one-time-code", inputmode: "numeric",
      "aria-describedby": `${ids.totpNote} ${ids.error}`,
    });
    const note = h("p", { id: ids.note, class: "note" });
    const error = h("p", { id: ids.error, class: "error", role: "alert" });
    const resend = h("button", { type: "button", class: "link", onclick: () => resend.hasAttribute("aria-disabled") || send() }, t("login.resend"));
    const submit = h("button", { type: "submit", class: "primary", onclick: once });
    const second = h("div", { class: "field" },
      h("label", { for: ids.code }, t("login.code")), code, note, resend);
    const third = h("div", { class: "field" },
      h("label", { for: ids.totp }, t("login.totp")), totp, h("p", { id: ids.totpNote, class: "note" }, t("login.totpNote")));
    const demo = demoAccounts(enterAs);
    const form = h("form", { onsubmit: next, novalidate: true },
      h("h2", { id: ids.title }, t("login")),
      again || !demo ? h("p", { class: "note" }, t(again ? "login.ended" : "login.why")) : null,
      h("div", { class: "field" }, h("label", { for: ids.phone }, t("login.phone")), phone,
        h("p", { id: ids.format, class: "note" }, t("login.format")), demo),
      second, third, error,
      h("div", { class: "actions" },
        h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, t("cancel")), submit));
    const dialog = h("dialog", { "aria-labelledby": ids.title, class: "sheet", onclose: closed }, form);
    let sentTo = ""; // the number that has a code
    let loginID; // of the last code that this dialog had sent
    let needsTOTP = false;
    let done = false;
    let working = false;
    let ticking = 0;

    // sent reports whether the number has a code, which that of a number before is not.
    const sent = () => sentTo !== "" && sentTo === phone.value.trim();

    function render() {
      show(second, sent());
      show(third, sent() && needsTOTP);
      text(submit, working ? t("working") : sent() ? t("login.enter") : t("login.send"));
      attr(submit, "aria-disabled", working);
    }

    function fail(problem) {
      if (problem.code === "totp_required") {
        if (needsTOTP) text(error, t("login.wrongTOTP"));
        needsTOTP = true;
        render();
        totp.value = "";
        totp.focus();
        return;
      }
      if (problem.code === "rate_limited" && !sent()) {
        text(error, quota(problem) ? t("login.quota", { at: hour(now() + problem.retryAfter, now()) }) : t("login.sentBefore"));
        return;
      }
      const wrongCode = problem.code === "unauthenticated";
      text(error, wrongCode ? t("login.wrong") : problem.code === "invalid_request" && !sent() ? t("login.badphone") : explain(problem));
    }

    async function work(what) {
      if (working) return;
      working = true;
      const number = phone.value.trim();
      text(error, "");
      render();
      try {
        await what();
      } catch (problem) {
        fail(problem);
        if (problem.code === "rate_limited" && !quota(problem)) sentTo = number; // a code sent before a reload is still valid
        if (problem.retryAfter > 0) countDown(problem.retryAfter);
      } finally {
        working = false;
        render();
      }
    }

    // countDown blocks the resend button for ms milliseconds and shows the remaining time on it.
    function countDown(ms) {
      const until = performance.now() + ms;
      clearInterval(ticking);
      const tick = () => {
        const rest = until - performance.now();
        attr(resend, "aria-disabled", rest > 0);
        text(resend, rest > 0 ? t("login.resendIn", { left: duration(Math.ceil(rest / 1000)) }) : t("login.resend"));
        if (rest <= 0) clearInterval(ticking);
      };
      ticking = setInterval(tick, 1000);
      tick();
    }

    async function sendCode() {
      const number = phone.value.trim();
      const answer = await session.sendCode(number);
      sentTo = number;
      loginID = answer.login_id;
      needsTOTP = false;
      totp.value = "";
      render();
      if (!sent()) return; // another number has been entered meanwhile
      text(note, answer.demo ? t("login.demo", { code: answer.demo }) : t("login.sent"));
      code.value = answer.demo;
      countDown(answer.resend_after * 1000);
      code.focus();
    }

    async function enter() {
      await session.login(phone.value.trim(), code.value.trim(), loginID, totp.value.trim());
      done = true;
      dialog.close();
    }

    const send = () => work(sendCode);

    // enterAs logs in to a demo, whose server returns the code.
    function enterAs(number) {
      if (working) return;
      phone.value = number;
      sentTo = "";
      work(async () => {
        await sendCode();
        await enter();
      });
    }

    function next(event) {
      event.preventDefault();
      if (!sent()) {
        if (phone.value.trim() === "") {
          text(error, t("login.badphone"));
          phone.focus();
          return;
        }
        send();
        return;
      }
      work(enter);
    }

    function closed() {
      clearInterval(ticking);
      dialog.remove();
      if (document.activeElement === document.body) focusPage(); // the page is another now, without the button that was pressed
      resolve(done);
    }

    if (again) phone.value = session.lastPhone();
    render();
    document.body.append(dialog);
    dialog.showModal(); // restores the focus when it closes
    phone.focus();
  });
}
