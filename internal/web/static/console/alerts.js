// Alerts on every page of the console: violated invariants, dead letters, refunds that the provider does not make, its
// notices that could not be processed, events that are not delivered, and a server that does not answer.

import { getMine } from "../lib/api.js";
import * as clock from "../lib/clock.js";
import { h, show } from "../lib/dom.js";
import { sleep, topic } from "../lib/events.js";
import { clockTime, number, onLanguage, stamp, t } from "../lib/i18n.js";
import { session } from "../lib/session.js";
import { violationOf } from "./details.js";
import { titleOf } from "./names.js";
import { keepFocus } from "./parts.js";

const POLL = 5_000; // ms
const RETRY = 2_000; // ms, after a failure
const STALE = 2; // failures in a row after which the page is marked
const UNCHECKED = 120_000; // ms without a check of the invariants
const NAMED = 3; // violations and refunds that are listed one by one

const changes = topic();
const started = performance.now();
let alerts = null; // the last answer
let failures = 0;
let answeredAt = new Date();
let wake = new AbortController();
let render = () => {};

// violated reports whether an invariant of a sale is violated. onChange subscribes to changes of what the banner says.
export const violated = (voucherID) => alerts?.violations.some((v) => v.voucher_id === voucherID) ?? false;
export const onChange = changes.on;

const link = (href, words) => h("a", { href }, words);

// sentences returns what the banner says.
export function sentences() {
  const all = [];
  if (failures >= STALE) all.push(t("alerts.stale", { at: clockTime(answeredAt) }));
  if (!alerts) return all;
  const { violations, checked_at: checkedAt, dead_letters: letters, failing_events: events, failing_refunds: refunds, unread_notices: notices } = alerts;
  for (const v of violations.slice(0, NAMED)) {
    all.push(link(`/console/sales/${v.voucher_id}`, t("alerts.violation", { title: titleOf(v.voucher_id, render), what: violationOf(v) })));
  }
  if (violations.length > NAMED) all.push(link("/console/reconcile", t("alerts.more", { n: number(violations.length - NAMED) })));
  if (letters > 0) all.push(link("/console/dead-letters", t("alerts.deadLetters", { n: number(letters) })));
  for (const r of refunds.slice(0, NAMED)) {
    all.push(link(`/console/orders/${r.order_id}`, t("alerts.refund", { id: r.order_id, n: number(r.tries), error: r.error })));
  }
  if (refunds.length > NAMED) all.push(link("/console/orders?status=refunding", t("alerts.moreRefunds", { n: number(refunds.length - NAMED) })));
  if (notices > 0) all.push(link("/console/notices", t("alerts.notices", { n: number(notices) })));
  if (events > 0) all.push(link("/console/events", t("alerts.events", { n: number(events) })));
  if (checkedAt && clock.now() - Date.parse(checkedAt) > UNCHECKED) all.push(t("alerts.unchecked", { at: stamp(checkedAt) }));
  if (!checkedAt && performance.now() - started > UNCHECKED) all.push(t("alerts.neverChecked"));
  return all;
}

// start shows the banner below the header, and keeps it up to date.
export function start() {
  const list = h("ul", {});
  const banner = h("div", { class: "alerts", role: "status", "data-alerts": true }, list);
  show(banner, false);
  document.querySelector("header.top").after(banner);
  let shown = "";
  render = () => {
    const all = sentences();
    const words = JSON.stringify(all.map((s) => (s.href ? [s.href, s.textContent] : s)));
    show(banner, all.length > 0);
    if (words === shown) return; // an unchanged text is not announced again
    keepFocus(list, () => list.replaceChildren(...all.map((s) => h("li", {}, s))));
    shown = words;
    changes.emit();
  };

  async function read() {
    if (document.hidden || !session.may("read")) return;
    try {
      alerts = await getMine("/admin/alerts");
      [failures, answeredAt] = [0, new Date()];
    } catch (problem) {
      if (!problem.code) throw problem;
      if (problem.code === "network" || problem.status >= 500) failures++;
    }
    render();
  }

  async function poll() {
    for (;;) {
      await read();
      wake = new AbortController();
      await sleep(failures ? RETRY : POLL, wake.signal);
    }
  }

  session.on((user) => {
    if (!user) [alerts, failures] = [null, 0];
    render();
    wake.abort();
  });
  document.addEventListener("visibilitychange", () => wake.abort());
  onLanguage(render);
  poll();
}
