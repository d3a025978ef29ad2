// Texts in the visitor's language: that of the browser, or the one that was chosen, which is remembered.

import { topic } from "./events.js";

const REMEMBERED = "seckill.language";
const changes = topic();
let dictionaries = {};
let current = "en";

// languages that there are texts in, by their code.
export const languages = { en: "English", zh: "中文" };

// use begins with these texts: {en: {key: text}, zh: {...}}.
export function use(texts) {
  dictionaries = texts;
  const wishes = [remembered(), ...(navigator.languages ?? [navigator.language])];
  choose(wishes.map((w) => (w ?? "").slice(0, 2).toLowerCase()).find((w) => w in texts) ?? "en", false);
}

// speak changes the language and remembers it.
export function speak(language) {
  choose(language, true);
}

export const language = () => current;
export const onLanguage = changes.on;

function choose(language, remember) {
  current = language;
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  if (remember) {
    try {
      localStorage.setItem(REMEMBERED, language);
    } catch {
      // no storage, no memory
    }
    changes.tell();
  }
}

function remembered() {
  try {
    return localStorage.getItem(REMEMBERED);
  } catch {
    return null;
  }
}

// has says whether there is a text.
export const has = (key) => key in dictionaries[current];

// t is the text of a key, with {name} replaced by values.
export function t(key, values = {}) {
  const text = dictionaries[current][key];
  if (text === undefined) throw new Error(`no text for ${key} in ${current}`);
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

const locale = () => (current === "zh" ? "zh-CN" : (navigator.languages ?? []).find((l) => l.startsWith("en")) ?? "en-GB");

// money writes an amount in the smallest unit of its currency.
export function money(amount, currency) {
  const options = { style: "currency", currency, currencyDisplay: "narrowSymbol" };
  const unit = 10 ** digits(currency);
  const format = new Intl.NumberFormat(locale(), amount % unit === 0 ? { ...options, minimumFractionDigits: 0 } : options);
  return format.format(amount / unit);
}

export const number = (n) => new Intl.NumberFormat(locale()).format(n);

// moment writes a time of the server's in the visitor's zone.
export function moment(time) {
  return new Intl.DateTimeFormat(locale(), {
    month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
  }).format(typeof time === "string" ? new Date(time) : time);
}

// stamp is moment with the year, for what may be long ago.
export function stamp(time) {
  return new Intl.DateTimeFormat(locale(), {
    year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
  }).format(new Date(time));
}

// clockTime is only the time of day.
export function clockTime(time) {
  return new Intl.DateTimeFormat(locale(), { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }).format(time);
}

// zone is the visitor's time zone, by its name and its distance to UTC at a moment.
export function zone(at = new Date()) {
  const format = new Intl.DateTimeFormat("en-GB", { timeZoneName: "longOffset" });
  const offset = format.formatToParts(at).find((p) => p.type === "timeZoneName").value.replace("GMT", "UTC");
  return `${format.resolvedOptions().timeZone} (${offset})`;
}

// digits is how many decimals an amount of a currency has. It throws a RangeError for what is no code at all.
export function digits(currency) {
  return new Intl.NumberFormat("en", { style: "currency", currency }).resolvedOptions().maximumFractionDigits;
}

// left writes a time to come, rounded up, so that zero is never shown before its moment: 01:00:05, 2 d 03:00:05; and
// 59:05 where a short form will do.
export function left(ms, short = false) {
  const all = Math.max(0, Math.ceil(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  const days = Math.floor(all / 86400);
  const minutes = `${two(Math.floor(all / 60) % 60)}:${two(all % 60)}`;
  if (short && all < 3600) return minutes;
  const clock = `${two(Math.floor(all / 3600) % 24)}:${minutes}`;
  return days > 0 ? t("time.days", { days, clock }) : clock;
}
