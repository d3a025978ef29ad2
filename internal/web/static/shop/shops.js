// The shops, read when a page shows them.

import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { topic } from "../lib/events.js";
import { languageOf } from "../lib/i18n.js";
import { icon } from "../lib/icon.js";

const RETRY = 30_000; // ms; after a failed read

const shops = new Map(); // by id: the shop; null if it is not known (yet)
const next = new Map(); // by id: the time (performance.now()) of the next read
const changes = topic();
let listed = null;

export const onChange = changes.on;

// load reads the shops of a list at once, so that shop() reads only what is missing.
export function load() {
  listed ??= get("/shops?limit=100").then(
    ({ items }) => {
      for (const s of items) shops.set(s.id, s);
    },
    () => {},
  ).then(changes.emit);
}

// shop returns a shop as {name, area, address, open_hours}; null until it is read.
export function shop(id) {
  if (!shops.get(id) && performance.now() >= (next.get(id) ?? 0)) {
    next.set(id, performance.now() + RETRY);
    (listed ?? Promise.resolve()).then(() => shops.get(id) ?? get(`/shops/${id}`)).then(
      (s) => {
        shops.set(id, s);
        changes.emit();
      },
      () => {}, // a sale can name a shop that does not exist
    );
  }
  return shops.get(id) ?? null;
}

// The map that finds an address in each language. It learns nothing before the link is pressed.
const maps = {
  "zh-CN": "https://uri.amap.com/search?keyword=",
  en: "https://www.openstreetmap.org/search?query=",
};

// addressOf returns the address of a shop as its language writes it; "" if it is not known.
export function addressOf(s) {
  const parts = [s?.area, s?.address].filter(Boolean);
  return languageOf(parts.join("")) === "en" ? parts.reverse().join(", ") : parts.join(" ");
}

// mapLink returns an address as a link to a map.
export function mapLink(address) {
  const lang = languageOf(address);
  return h("a", { class: "map", href: maps[lang] + encodeURIComponent(address), target: "_blank", rel: "noreferrer", lang }, icon("pin"), address);
}
