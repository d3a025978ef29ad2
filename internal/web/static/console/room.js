// The waiting room of a sale: its figures, and the controls that act on it while buyers wait.

import { attr, h, show, text } from "../lib/dom.js";
import { number, t } from "../lib/i18n.js";
import { session } from "../lib/session.js";
import { form } from "./form.js";
import { button, chip, errorBox, factList, section, setChip, statusLine } from "./parts.js";

export const MAX_RATE = 10_000; // buyers per second
const MAX_MESSAGE = 255;

const figures = ["lobby", "waiting", "present", "admitted", "outstanding", "used", "left", "rate"];

// room returns the panel of a sale's waiting room: render(voucher) and showFigures(room of the statistics) update it.
// change(body) changes the room and renders the answer.
export function room(change) {
  const out = errorBox();
  const status = statusLine();
  const state = chip("");
  const list = factList();
  let entry = {};

  // changed sends a change and reports its success.
  async function changed(body, sentence) {
    status.clear();
    await change(body);
    status.show(sentence);
  }

  const pause = button({ name: "pause", label: "", out }, () =>
    entry.paused ? changed({ paused: false }, t("room.resumed")) : changed({ paused: true }, t("room.stopped")));
  const rate = form({
    name: "rate", label: t("room.setRate"), kind: "quiet",
    fields: [{ name: "rate", kind: "whole", label: t("room.rate"), required: true, min: 1, max: MAX_RATE }],
    work: (values) => changed(values, t("room.rateSet", { n: number(values.rate) })),
  });
  const message = form({
    name: "message", label: t("room.showMessage"), kind: "quiet",
    fields: [{ name: "message", kind: "text", label: t("room.message"), note: t("room.messageNote"), max: MAX_MESSAGE, empty: "" }],
    work: (values) => changed(values, t(values.message ? "room.messageShown" : "room.messageRemoved")),
  });
  const operates = session.may("operate");
  const element = section(t("room.title"), h("div", { class: "head" }, state, operates ? pause : null), list.element, out.element, status.element,
    operates ? h("div", { class: "forms" }, rate.element, message.element) : null);
  attr(element, "data-room", true);
  show(element, false);
  return {
    element,
    render(v) {
      entry = v.entry ?? {};
      show(element, entry.mode === "room");
      if (entry.mode !== "room") return;
      setChip(state, t(entry.paused ? "room.isPaused" : "room.isOpen"), entry.paused ? "bad" : "good");
      text(pause, t(entry.paused ? "room.resume" : "room.pause"));
      rate.reset({ rate: String(entry.rate) });
      message.reset({ message: entry.message ?? "" });
    },
    showFigures(room) {
      list.set(figures.map((id) => ({ id: `room.${id}`, name: t(`room.${id}`), value: room && number(room[id]) })));
    },
  };
}
