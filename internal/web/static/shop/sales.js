// The sales, polled from the server while a page shows them.

import * as clock from "../lib/clock.js";
import { get, json, send } from "../lib/api.js";
import { backoff, topic } from "../lib/events.js";

const PAGE = 60;
const SOON = 15_000; // ms before and after the start or end of a sale
const OPEN = 3_000; // polling interval then, and while a sale is on. The buttons themselves follow the clock
const SLOW = 8_000; // polling interval otherwise

const sales = new Map();
const changes = topic();
let timer = 0;
let failures = 0;
let pages = 1;
let cursor = null;
let running = null;
let watching = false;

export const onChange = changes.on;
export const all = () => [...sales.values()];
export const sale = (id) => sales.get(id);
export const hasMore = () => cursor !== null;
// error is the Problem of the last failed poll; null after a success, and for a first failure that may be an accident.
export let error = null;
export let loaded = false;

// stateOf returns the state of a sale: its window by the server's clock, its stock as last read.
export function stateOf(v, now = clock.now()) {
  if (now >= Date.parse(v.end_at)) return "ended";
  if (now < Date.parse(v.begin_at)) return "upcoming";
  return v.stock > 0 ? "on_sale" : "sold_out";
}

// flashSales returns the published flash sales of a page of vouchers, and passes the server time to the clock.
function flashSales(items, sent, got) {
  if (items.length > 0) clock.observe(items[0].server_time, sent, got);
  return items.filter((v) => v.type === "seckill" && v.status === "on");
}

async function read() {
  const found = new Map();
  const began = performance.now();
  cursor = null;
  for (let page = 0; page < pages; page++) {
    const sent = performance.now();
    const response = await send("GET", `/vouchers?status=on&limit=${PAGE}${cursor ? `&cursor=${cursor}` : ""}`);
    const body = await json(response);
    for (const v of flashSales(body.items, sent, response.got)) found.set(v.id, v);
    cursor = body.next_cursor;
    if (cursor === null) break;
  }
  sales.clear();
  for (const [id, v] of found) sales.set(id, began < soldOutAt.get(id) ? { ...v, stock: 0 } : v);
}

// soldOut records that a sale has no stock left. Answers to earlier requests do not override it.
const soldOutAt = new Map();
export function soldOut(id) {
  soldOutAt.set(id, performance.now());
  if (sales.has(id)) sales.set(id, { ...sales.get(id), stock: 0 });
  changes.emit();
}

// refresh reads the sales now. Concurrent calls share one request.
export function refresh() {
  running ??= (async () => {
    try {
      await read();
      loaded = true;
      failures = 0;
      error = null;
    } catch (problem) {
      failures++;
      if (failures > 1 || !loaded || !navigator.onLine) error = problem;
    }
    changes.emit();
  })().finally(() => {
    running = null;
    schedule();
  });
  return running;
}

// more loads one page more.
export function more() {
  pages++;
  return refresh();
}

// one returns a voucher, for its title, even if it is not on sale any more; null until it is read.
const others = new Map(); // by id: {voucher, failures, next}; `next` is the time of the next attempt
export function one(id) {
  if (sales.has(id)) return sales.get(id);
  if (!others.has(id)) others.set(id, { voucher: null, failures: 0, next: 0 });
  const o = others.get(id);
  if (performance.now() >= o.next) {
    o.next = Infinity;
    get(`/vouchers/${id}`).then(
      (v) => {
        o.voucher = v;
        changes.emit();
      },
      (problem) => (o.next = performance.now() + problem.retryAfter + backoff(o.failures++, 4_000, 300_000)),
    );
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
    if (near(v.begin_at) || near(v.end_at) || ["on_sale", "sold_out"].includes(stateOf(v, now))) wait = OPEN;
  }
  return wait * (0.7 + 0.6 * Math.random()); // pages that were opened together drift apart
}

function schedule() {
  clearTimeout(timer);
  if (watching && !document.hidden) timer = setTimeout(refresh, pause());
}

// watch starts polling and returns the function that stops it.
export function watch() {
  watching = true;
  refresh();
  return () => {
    watching = false;
    clearTimeout(timer);
  };
}

export function start() {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) clearTimeout(timer);
    else if (watching) {
      clock.forget();
      refresh();
    }
  });
  addEventListener("online", () => watching && refresh());
  addEventListener("offline", () => {
    error = { code: "network" };
    changes.emit();
  });
}
