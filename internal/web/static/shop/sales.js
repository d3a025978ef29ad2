// The sales, polled from the server while a page shows them.

import * as clock from "../lib/clock.js";
import { asUser, get, json, orNull, Problem, send } from "../lib/api.js";
import { backoff, topic } from "../lib/events.js";

const PAGE = 100;
const PAGES = 5; // pages of the list that are read at once; further ones on request
const SOON = 15_000; // ms before and after the start or end of a sale
const OPEN = 3_000; // polling interval then, and while a sale is on. The buttons themselves follow the clock
const QUIET = 500; // ms more for each poll without a change
const SLOW = 8_000; // polling interval otherwise
const RETRY = 30_000; // ms; after a failed read of one voucher
const LAG = 2_000; // ms until the answers of all servers have a purchase

// Problems of reading a sale that does not exist, or not for this visitor.
const gone = ["invalid_request", "unauthenticated", "forbidden", "not_found"];

const sales = new Map();
const changes = topic();
let timer = 0;
let failures = 0;
let pages = PAGES;
let cursor = null;
let running = null;
let watching = false;
let only = null; // the id of the only sale that is read; null: the list
let past = null; // the sales that had ended when they were requested

export const onChange = changes.on;
export const all = () => [...new Map([...(past ?? []), ...sales]).values()];
export const sale = (id) => sales.get(id) ?? past?.get(id);
export const hasMore = () => cursor !== null;
export const hasPast = () => past !== null;
// error is the Problem of the last failed poll; null after a success, and for a first failure that may be an accident.
export let error = null;
export let loaded = false; // whether the list has been read
export let missing = null; // the id of a sale that does not exist

// stateOf returns the state of a sale: its window by the server's clock, its stock as last read.
export function stateOf(v, now = clock.now()) {
  if (v.status !== "on" || now >= Date.parse(v.end_at)) return "ended";
  if (now < Date.parse(v.begin_at)) return "upcoming";
  return v.stock > 0 ? "on_sale" : "sold_out";
}

const tags = new Map(); // by path: the ETag of the last answer
let quiet = 0; // polls since the last change

// request reads from the API. An unchanged answer is not sent again (ETag): the browser repeats it with new headers.
async function request(path, by = send) {
  const response = await by("GET", path, { cache: "no-cache" });
  const tag = response.headers.get("ETag");
  if (tags.get(path) !== tag) quiet = 0;
  tags.set(path, tag);
  return json(response);
}

// page reads a page of the list: {items, next_cursor} with the flash sales only.
async function page(status, after) {
  const body = await request(`/vouchers?status=${status}&limit=${PAGE}${after ? `&cursor=${after}` : ""}`);
  return { ...body, items: body.items.filter((v) => v.type === "seckill") };
}

// read reads the sale with an id, or the list without one. The page may show something else when the answer arrives.
async function read(id) {
  quiet++;
  const found = new Map();
  const began = performance.now();
  if (id) {
    const path = `/vouchers/${encodeURIComponent(id)}`;
    const preview = new URLSearchParams(location.search).has("preview"); // staff sees a sale as if it were published
    const v = preview ? { ...(await request(path, asUser)), status: "on", preview } : await request(path);
    if (v.type !== "seckill") throw new Problem({ code: "not_found", status: 404 });
    found.set(id, v);
  } else {
    let after = null;
    for (let n = 0; n === 0 || (n < pages && after !== null); n++) {
      const { items, next_cursor } = await page("current", after);
      for (const v of items) found.set(v.id, v);
      after = next_cursor;
    }
    cursor = after;
    const now = clock.now();
    // What ends while the page is open stays, so that no card moves. What was unpublished leaves.
    for (const [of, v] of sales) if (!found.has(of) && !v.preview && Date.parse(v.end_at) <= now) found.set(of, v);
  }
  if (!id && !only) sales.clear();
  for (const [of, v] of found) sales.set(of, began < known.get(of)?.until ? { ...v, stock: Math.min(v.stock, known.get(of).stock) } : v);
}

// readPast adds the last sales that have ended to the list.
export async function readPast() {
  try {
    past = new Map((await page("ended")).items.map((v) => [v.id, v]));
  } catch (problem) {
    error = problem;
  }
  changes.emit();
}

const known = new Map(); // by sale: {stock, until}; answers to requests before that time have no more stock

function atMost(id, stock, until) {
  known.set(id, { stock, until });
  if (sales.has(id)) sales.set(id, { ...sales.get(id), stock });
  changes.emit();
}

// soldOut records that a sale has no stock left.
export const soldOut = (id) => atMost(id, 0, performance.now());

// bought records that a sale has accepted an order of the visitor, and had the stock `before` when it was requested. An answer
// that was read since then may include the order.
export function bought(id, before = Infinity) {
  if (sales.has(id)) atMost(id, Math.max(Math.min(sales.get(id).stock, before - 1), 0), performance.now() + LAG);
}

// refresh reads the sales now. Concurrent calls share one request.
export function refresh() {
  running ??= (async () => {
    const id = only;
    try {
      await read(id);
      loaded ||= !id;
      failures = 0;
      error = null;
    } catch (problem) {
      if (id && gone.includes(problem.code)) {
        sales.delete(id);
        missing = id;
      } else if (++failures > 1 || !(id ? sales.has(id) : loaded) || !navigator.onLine) error = problem;
    }
    changes.emit();
  })().finally(() => {
    running = null;
    schedule();
  });
  return running;
}

// more loads further pages.
export function more() {
  pages += PAGES;
  return refresh();
}

// one returns a voucher, for its title, even if it is not on sale any more; null until it is read.
const others = new Map(); // by id: {voucher, next}; `next` is the time of the next attempt
export function one(id) {
  if (sales.has(id)) return sales.get(id);
  const o = others.get(id) ?? { voucher: null, next: 0 };
  others.set(id, o);
  if (!o.voucher && performance.now() >= o.next) {
    o.next = performance.now() + RETRY;
    orNull(get(`/vouchers/${id}`)).then((v) => {
      o.voucher = v;
      changes.emit();
    });
  }
  return o.voucher;
}

// pause returns the ms until the next poll.
function pause() {
  if (failures > 0) return backoff(failures, 1000, 15_000);
  const now = clock.now();
  const near = (time) => Math.abs(Date.parse(time) - now) < SOON;
  let wait = SLOW;
  for (const v of sales.values()) {
    if (near(v.begin_at) || near(v.end_at)) wait = OPEN;
    else if (["on_sale", "sold_out"].includes(stateOf(v, now))) wait = Math.min(wait, OPEN + quiet * QUIET);
  }
  return wait * (0.7 + 0.6 * Math.random()); // pages that were opened together drift apart
}

function schedule() {
  clearTimeout(timer);
  if (watching && !document.hidden) timer = setTimeout(refresh, pause());
}

// watch starts polling the list, or the sale with an id only, and returns the function that stops it.
export function watch(id = null) {
  [watching, only, missing] = [true, id, null];
  if (running) running.then(refresh); // it may read something else
  else refresh();
  return () => {
    watching = false;
    clearTimeout(timer);
  };
}

export function start() {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) clearTimeout(timer);
    else if (watching) refresh();
  });
  addEventListener("online", () => watching && refresh());
  addEventListener("offline", () => {
    error = { code: "network" };
    changes.emit();
  });
}
