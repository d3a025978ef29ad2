// Reminders of a sale that has not begun: a file for the calendar, and a notification of the browser while the page is open.

import * as clock from "../lib/clock.js";
import { get } from "../lib/api.js";
import { h, show, text } from "../lib/dom.js";
import { hour, t } from "../lib/i18n.js";
import { icon } from "../lib/icon.js";
import { save } from "../lib/save.js";
import * as sales from "./sales.js";
import * as shops from "./shops.js";

const EARLY = 60_000; // ms before the start, of the notification
const ALARM = "-PT5M"; // of the calendar
const LENGTH = 15 * 60_000; // ms; of the event
const LONGEST = 2 ** 31 - 1; // ms; of a timer
const LINE = 75; // bytes in a line of the file

const timers = new Map(); // by sale

// reminders returns the two buttons for a sale: {element, update}; update(v, state) shows them before the start.
export function reminders(id) {
  const status = h("p", { class: "note", role: "status" });
  const button = (name, sign, press) => h("button", { type: "button", class: "quiet", "data-do": name, onclick: press }, icon(sign), t(`remind.${name}`));
  const notify = button("notify", "bell", async () => text(status, await schedule(sales.sale(id))));
  const element = h("div", { class: "remind" }, button("calendar", "calendar", () => toCalendar(sales.sale(id))), notify, status);
  return {
    element,
    update(v, state) {
      show(element, state === "upcoming" && !v.preview);
      show(notify, "Notification" in globalThis && Notification.permission !== "denied");
    },
  };
}

const untilAlarm = (v) => Date.parse(v.begin_at) - EARLY - clock.now();

// schedule has the browser notify the visitor shortly before the start, and returns what to say about that. It notifies
// at once as well: some browsers grant the permission and then refuse.
async function schedule(v) {
  try {
    if ((await Notification.requestPermission()) !== "granted") return t("remind.blocked");
    notification(v);
  } catch {
    return t("remind.blocked");
  }
  clearTimeout(timers.get(v.id));
  if (untilAlarm(v) > 0) plan(v);
  return t("remind.set");
}

const plan = (v) => timers.set(v.id, setTimeout(remind, Math.min(untilAlarm(v), LONGEST), v));

// remind notifies the visitor, unless the sale was taken off meanwhile, or postponed: pages that are not visible read no sales.
async function remind(known) {
  let v = known;
  try {
    v = await get(`/vouchers/${known.id}`);
  } catch (problem) {
    if (problem.code === "not_found") return;
  }
  if (untilAlarm(v) > 0) plan(v);
  else notification(v);
}

function notification(v) {
  const shown = new Notification(v.title, { body: t("button.upcoming", { at: hour(v.begin_at, clock.now()) }), tag: `seckill-${v.id}` });
  shown.onclick = () => globalThis.focus();
}

function toCalendar(v) {
  save(new Blob([calendar(v, shops.shop(v.shop_id))], { type: "text/calendar" }), `${v.id}.ics`);
}

const utc = (time) => new Date(time).toISOString().replace(/[-:]|\.\d+/g, "");
const escaped = (words) => words.replace(/[\\;,]/g, "\\$&").replace(/\r?\n/g, "\\n");

// calendar returns an event at the start of a sale, by RFC 5545.
function calendar(v, at) {
  const begin = Date.parse(v.begin_at);
  const link = new URL(`/sales/${v.id}`, location.href).href;
  return [
    "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//seckill//EN", "BEGIN:VEVENT",
    `UID:sale-${v.id}@${location.hostname}`, `DTSTAMP:${utc(clock.now())}`,
    `DTSTART:${utc(begin)}`, `DTEND:${utc(Math.min(begin + LENGTH, Date.parse(v.end_at)))}`,
    `SUMMARY:${escaped(v.title)}`, `DESCRIPTION:${escaped(link)}`, `URL:${link}`,
    ...(at ? [`LOCATION:${escaped([at.name, at.address].filter(Boolean).join(", "))}`] : []),
    "BEGIN:VALARM", "ACTION:DISPLAY", `TRIGGER:${ALARM}`, `DESCRIPTION:${escaped(v.title)}`, "END:VALARM",
    "END:VEVENT", "END:VCALENDAR", "",
  ].map(folded).join("\r\n");
}

// folded breaks a line where it has too many bytes; the next one begins with a space.
function folded(line) {
  let all = "";
  let size = 0;
  for (const c of line) {
    const bytes = new TextEncoder().encode(c).length;
    if (size + bytes > LINE) {
      all += "\r\n ";
      size = 1;
    }
    all += c;
    size += bytes;
  }
  return all;
}
