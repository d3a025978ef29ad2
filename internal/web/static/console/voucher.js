// The form fields of a voucher.

import { now } from "../lib/clock.js";
import { t, zone } from "../lib/i18n.js";
import { formatAmount, formatMinutes, localTime } from "./form.js";
import { MAX_RATE } from "./room.js";

export const MAX_UNITS = 1_000_000_000;
const LOBBY = 600_000; // ms; the default of entry.opens_at is so long before the start
const PASS_TTL = { pass: 10, room: 120 }; // the defaults
const RATE = 100; // the default
const NO_SHOP = "0"; // of a draft

// groups returns the groups of the fields, in their order on the page.
export const groups = () => ["what", "price", "when", "fairness", "advanced"].map((name) => ({ name, title: t(`group.${name}`), folded: name === "advanced" }));

// soon returns the time a number of hours after the present minute, by the server's clock.
const soon = (hours) => Math.floor(now() / 60_000) * 60_000 + hours * 3_600_000;

// fields returns the form fields of a voucher; `v` is the voucher to change, or null for a new one, `shops` are all shops.
// A draft needs a title only.
export function fields(v, shops, currency) {
  const required = v !== null && v.status !== "draft";
  const sale = !v || v.type === "seckill";
  const at = (hours) => localTime(soon(hours));
  const note = (value) => t("voucher.zone", { zone: zone(Number.isNaN(Date.parse(value)) ? undefined : new Date(value)) }); // its offset varies with summer time
  const withPass = (value) => value("entry.mode") !== "open";
  const withRoom = (value) => value("entry.mode") === "room";
  const all = [
    { group: "what", name: "title", kind: "text", required: true, max: 255 },
    { group: "what", name: "sub_title", kind: "text", max: 255, empty: "" },
    { group: "what", name: "shop_id", kind: "choice", required, options: shopOptions(v, shops), note: shops.length === 0 && t("voucher.noShop") },
    { group: "what", name: "image_id", kind: "picture", note: t("voucher.image_idNote"), empty: v ? "" : undefined },
    { group: "what", name: "rules", kind: "area", max: 1024, empty: "" },
    { group: "price", name: "pay_value", kind: "amount", required, currency },
    { group: "price", name: "actual_value", kind: "amount", required, currency, note: t("voucher.faceValueNote") },
    !v && { group: "price", name: "currency", kind: "currency", required: true, value: "CNY", note: t("voucher.currencyNote") },
    !v && { group: "price", name: "stock", kind: "whole", min: 0, max: MAX_UNITS },
    sale && { group: "when", name: "begin_at", kind: "time", required, note, value: at(1) },
    sale && { group: "when", name: "end_at", kind: "time", required, note, value: at(3) },
    sale && { group: "when", name: "pay_timeout", kind: "minutes", empty: v ? null : undefined, min: 1, max: 86400, note: t("voucher.pay_timeoutNote") },
    { group: "when", name: "valid_from", kind: "time", empty: v ? null : undefined, note: t("voucher.validNote") },
    { group: "when", name: "valid_until", kind: "time", empty: v ? null : undefined, note },
    sale && { group: "fairness", name: "limit_per_user", kind: "whole", required: true, min: 1, max: 100, value: 1 },
    sale && { group: "fairness", name: "entry.mode", kind: "choice", value: "open", note: t("voucher.entry.modeNote"), options: ["open", "pass", "room"].map((m) => [m, t(`voucher.entry.${m}`)]) },
    sale && { group: "fairness", name: "entry.opens_at", kind: "time", empty: "", note: t("voucher.entry.opens_atNote"), shown: withRoom },
    sale && { group: "fairness", name: "entry.rate", kind: "whole", min: 1, max: MAX_RATE, empty: "", note: t("voucher.entry.rateNote"), shown: withRoom },
    sale && { group: "advanced", name: "entry.pass_ttl", kind: "whole", min: 1, max: 3600, empty: "", note: t("voucher.entry.pass_ttlNote"), shown: withPass },
    sale && {
      group: "fairness", name: "entry.challenge", kind: "choice", value: "off", note: t("voucher.entry.challengeNote"), shown: withPass,
      options: ["off", "on"].map((c) => [c, t(`voucher.entry.challenge.${c}`)]),
    },
    sale && { group: "advanced", name: "unpaid_limit", kind: "whole", empty: v ? null : undefined, min: 0, max: 100, note: t("voucher.unpaid_limitNote") },
    sale && { group: "advanced", name: "segments", kind: "whole", required: true, min: 1, max: 16, value: 1, note: t("voucher.segmentsNote") },
  ];
  const own = v ? valuesOf(v) : {};
  return all.filter(Boolean).map((f) => ({ label: t(`voucher.${f.name}`), ...f, value: own[f.name] ?? f.value ?? "" }));
}

// shopOptions are the options of the shop picker. A shop that does not exist stays chosen until another one is.
function shopOptions(v, shops) {
  const options = shops.map((s) => [s.id, [s.name, s.area].filter(Boolean).join(" · ")]);
  if (!v || v.shop_id === NO_SHOP) return [["", t("voucher.chooseShop")], ...options];
  return shops.some((s) => s.id === v.shop_id) ? options : [[v.shop_id, t("voucher.unknownShop", { id: v.shop_id })], ...options];
}

// valuesOf returns a voucher's values as its form shows them. Defaults that follow other fields are shown as empty.
export function valuesOf(v) {
  const amount = (n) => (n === 0 && v.status === "draft" ? "" : formatAmount(n, v.currency)); // not entered yet
  const all = { ...v, pay_value: amount(v.pay_value), actual_value: amount(v.actual_value), limit_per_user: String(v.limit_per_user) };
  all.unpaid_limit = String(v.unpaid_limit ?? "");
  all.pay_timeout = v.pay_timeout === undefined ? "" : formatMinutes(v.pay_timeout);
  if (v.shop_id === NO_SHOP) all.shop_id = "";
  all.image_id = v.image_id ?? "";
  all.segments = String(v.segments ?? 1);
  const window = v.begin_at < v.end_at ? ["begin_at", "end_at"] : []; // that of a draft may not have been chosen
  for (const at of [...window, "valid_from", "valid_until"]) all[at] = v[at] ? localTime(v[at]) : "";
  if (window.length === 0) all.begin_at = all.end_at = "";
  if (v.entry) {
    const { mode, opens_at: opens, rate = "", pass_ttl: ttl, challenge = "off" } = v.entry;
    all["entry.mode"] = mode;
    all["entry.opens_at"] = opens && Date.parse(v.begin_at) - Date.parse(opens) !== LOBBY ? localTime(opens) : "";
    all["entry.rate"] = String(rate);
    all["entry.pass_ttl"] = ttl === undefined || ttl === PASS_TTL[mode] ? "" : String(ttl);
    all["entry.challenge"] = challenge;
  }
  return all;
}

// copyOf returns the values of a new sale like v. It begins when a new sale does, and lasts as long as v.
export function copyOf(v) {
  const begin = soon(1);
  return {
    ...valuesOf(v), "entry.opens_at": "", stock: String(v.initial_stock), begin_at: localTime(begin),
    end_at: localTime(begin + Date.parse(v.end_at) - Date.parse(v.begin_at)),
  };
}

// body returns the request body for the values of a voucher's form. Unless the mode is new, it has only those fields of the
// entry that were edited: the others may have changed since they were shown.
export function body(values, form) {
  const rest = Object.fromEntries(Object.entries(values).filter(([name]) => !name.startsWith("entry.")));
  if (Object.keys(rest).length === Object.keys(values).length) return values;
  const mode = form.value("entry.mode");
  const entry = { mode };
  const take = (name, standard) => {
    const field = `entry.${name}`;
    if (values["entry.mode"] === undefined && values[field] === undefined) return;
    entry[name] = form.parsed(field) || standard;
  };
  if (mode === "room") {
    const begin = form.parsed("begin_at"); // a draft may have none
    take("opens_at", begin && new Date(Date.parse(begin) - LOBBY).toISOString());
    take("rate", RATE);
  }
  if (mode !== "open") {
    take("pass_ttl", PASS_TTL[mode]);
    take("challenge");
  }
  return { ...rest, entry };
}

// validate checks all values of a voucher's form against each other and the clock. A published sale (`v`) may end at once.
export const validate = (v) => (values, form) => {
  const errors = {};
  const [begin, end] = ["begin_at", "end_at"].map((name) => form.value(name));
  if (begin !== undefined && new Date(end) <= new Date(begin)) errors.end_at = t("form.order");
  else if ((!v || v.status === "draft") && new Date(end) <= now()) errors.end_at = t("form.over");
  if (form.value("entry.mode") === "room" && new Date(form.value("entry.opens_at")) > new Date(begin)) errors["entry.opens_at"] = t("form.opens");
  if (values.pay_value > values.actual_value) errors.pay_value = t("form.price");
  if (v && v.status !== "draft" && values.actual_value === 0) errors.actual_value = t("check.problem.actual_value");
  if (values.valid_from && values.valid_until && values.valid_until <= values.valid_from) errors.valid_until = t("form.order");
  if (v && v.status !== "draft" && values.limit_per_user < v.limit_per_user) errors.limit_per_user = t("form.lower", { n: v.limit_per_user });
  return errors;
};
