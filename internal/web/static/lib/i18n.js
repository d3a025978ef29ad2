// Texts, numbers and times in the visitor's language: the one chosen on the page, which is remembered, or the browser's.

import { digits } from "./currency.js";
import { topic } from "./events.js";
import { forAll } from "./storage.js";

const REMEMBERED = "seckill.language";
const changes = topic();
let dictionaries = {};
let current = "en";

// languages maps the available languages to their names.
export const languages = { en: "English", zh: "中文" };

// use installs texts, as {en: {key: text}, zh: {...}}, and selects the initial language.
export function use(texts) {
  dictionaries = texts;
  const preferred = [forAll.get(REMEMBERED), ...(navigator.languages ?? [navigator.language])];
  select(preferred.map((l) => (l ?? "").slice(0, 2).toLowerCase()).find((l) => l in texts) ?? "en");
}

// choose changes the language and remembers it.
export function choose(language) {
  select(language);
  forAll.set(REMEMBERED, language);
  changes.emit();
}

export const language = () => current;
export const onLanguage = changes.on;

function select(language) {
  current = language;
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
}

// has reports whether a text exists for a key.
export const has = (key) => key in dictionaries[current];

// t returns the text for a key, with each {name} replaced by its value, and {name|one|more} by the words for its number. An
// unknown key is an error.
export function t(key, values = {}) {
  const text = dictionaries[current][key];
  if (text === undefined) throw new Error(`no text for ${key} in ${current}`);
  return text.replace(/\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g, (_, name, one, more) => {
    if (one === undefined) return values[name];
    return String(values[name]) === "1" ? one : more;
  });
}

const locale = () => (current === "zh" ? "zh-CN" : (navigator.languages ?? []).find((l) => l.startsWith("en")) ?? "en-GB");

// formatter returns a formatter of Intl, which are expensive to make. Lists format dozens of times and amounts a second.
const formatters = new Map();
function formatter(type, options) {
  const key = `${type} ${locale()} ${JSON.stringify(options)}`;
  if (!formatters.has(key)) formatters.set(key, new Intl[type](locale(), options));
  return formatters.get(key);
}

// money formats an amount, given in the smallest unit of its currency. Currencies that share a sign are distinguished:
// ¥ is the yuan and JP¥ the yen, in both languages.
export function money(amount, currency) {
  const places = digits(currency);
  const unit = 10 ** places;
  const decimals = { minimumFractionDigits: amount % unit === 0 ? 0 : places, maximumFractionDigits: places };
  const currencyDisplay = currency === "CNY" ? "narrowSymbol" : "symbol";
  const code = /^[A-Z]{3}$/i.test(currency) ? currency : "XXX"; // another program may store anything
  const words = formatter("NumberFormat", { style: "currency", currency: code, currencyDisplay, ...decimals }).format(amount / unit);
  return currency === "JPY" ? words.replace(/(JP)?¥/, "JP¥") : words;
}

export const number = (n) => formatter("NumberFormat").format(n);

// percent formats a share of 1.
export const percent = (share) => formatter("NumberFormat", { style: "percent" }).format(share);

// discount returns how much less a price is than a face value; "" if it is not, or nothing is charged.
export function discount(price, value) {
  const share = price < value ? Math.round(100 - (100 * price) / value) : 0;
  if (share <= 0 || share >= 100) return "";
  return t("off", { off: current === "zh" ? number((100 - share) / 10) : share }); // 8 折 is −20%
}

const year = "numeric";
const dayAndTime = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
const { month, day, ...timeOfDay } = dayAndTime;
const { second, ...hourOfDay } = timeOfDay;
const DAY = 86_400_000; // ms

// stamp formats a server time in the visitor's time zone.
export const stamp = (time) => formatter("DateTimeFormat", { year, ...dayAndTime }).format(new Date(time));

// hour formats a time in little room: 14:00, or Dec 1, 14:00 if that is a day away from `now`, or Mar 1, 2027 if it is a month
// away and in another year.
export function hour(time, now) {
  const at = new Date(time);
  const away = Math.abs(at - now);
  if (away < DAY) return formatter("DateTimeFormat", hourOfDay).format(at);
  const far = away > 30 * DAY && at.getFullYear() !== new Date(now).getFullYear();
  return formatter("DateTimeFormat", { month, day, ...(far ? { year } : hourOfDay) }).format(at);
}

// clockTime formats the time of day.
export const clockTime = (time) => formatter("DateTimeFormat", timeOfDay).format(time);

// duration formats seconds: exactly up to ten minutes, in whole minutes beyond.
export function duration(seconds) {
  const minutes = Math.floor(seconds / 60);
  const rest = seconds % 60;
  if (minutes === 0) return t("time.seconds", { s: rest });
  return minutes >= 10 || rest === 0 ? t("time.minutes", { n: number(minutes) }) : t("time.minutesSeconds", { n: minutes, s: rest });
}

// languageOf returns the value of lang for a text of a merchant, whose language is not stored.
export const languageOf = (words) => (/\p{Script=Han}/u.test(words) ? "zh-CN" : "en");

// zone returns the visitor's time zone as its name and its offset from UTC.
export function zone(at = new Date()) {
  const format = new Intl.DateTimeFormat("en-GB", { timeZoneName: "longOffset" });
  const offset = format.formatToParts(at).find((p) => p.type === "timeZoneName").value.replace("GMT", "UTC");
  return `${format.resolvedOptions().timeZone} (${offset})`;
}

// left formats a remaining time in ms, rounded up so that zero never appears early: 01:00:05, 2 d 03:00:05. `short`
// leaves out the hours below one hour: 59:05.
export function left(ms, short = false) {
  const all = Math.max(0, Math.ceil(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  const days = Math.floor(all / 86400);
  const minutes = `${two(Math.floor(all / 60) % 60)}:${two(all % 60)}`;
  if (short && all < 3600) return minutes;
  const clock = `${two(Math.floor(all / 3600) % 24)}:${minutes}`;
  return days > 0 ? t("time.days", { days, clock }) : clock;
}
