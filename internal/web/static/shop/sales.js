// The sales as the server has them, asked for again and again while somebody looks.

import * as clock from "../lib/clock.js";
import { get, json, send } from "../lib/api.js";
import { backoff, topic } from "../lib/events.js";

const PAGE = 60;
const SOON = 15_000; // so long before and after a beginning or an end
const OPEN = 3_000; // then, and while something is on sale. A page goes live by its clock: no answer has to say so
const SLOW = 8_000;

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
// trouble is the Problem of the last tries, once it is worth mentioning.
export let trouble = null;
export let loaded = false;

// stateOf is the state of a sale now: the window by the server's clock, the stock as last heard.
export function stateOf(v, now = clock.now()) {
  if (now >= Date.parse(v.end_at)) return "ended";
  if (now < Date.parse(v.begin_at)) return "upcoming";
  return v.stock > 0 ? "on_sale" : "sold_out";
}

// take reads vouchers out of an answer, and the server's clock with them.
function take(items, sent, got) {
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
    for (const v of take(body.items, sent, response.got)) found.set(v.id, v);
    cursor = body.next_cursor;
    if (cursor === null) break;
  }
  sales.clear();
  for (const [id, v] of found) sales.set(id, began < gone.get(id) ? { ...v, stock: 0 } : v);
}

// soldOut is for who hears that nothing is left: no answer to an older question says otherwise.
const gone = new Map();
export function soldOut(id) {
  gone.set(id, performance.now());
  if (sales.has(id)) sales.set(id, { ...sales.get(id), stock: 0 });
  changes.tell();
}

// refresh asks the server now. Whoever asks while it is being asked gets that answer.
export function refresh() {
  running ??= (async () => {
    try {
      await read();
      loaded = true;
      failures = 0;
      trouble = null;
    } catch (problem) {
      failures++;
      if (failures > 1 || !loaded || !navigator.onLine) trouble = problem;
    }
    changes.tell();
  })().finally(() => {
    running = null;
    plan();
  });
  return running;
}

// more shows the next page, too.
export function more() {
  pages++;
  return refresh();
}

// one reads a voucher that may not be on sale any more, for its name.
const others = new Map(); // by id: {voucher, failures, next}: it may be asked for from `next` on
export function one(id) {
  if (sales.has(id)) return sales.get(id);
  if (!others.has(id)) others.set(id, { voucher: null, failures: 0, next: 0 });
  const o = others.get(id);
  if (performance.now() >= o.next) {
    o.next = Infinity;
    get(`/vouchers/${id}`).then(
      (v) => {
        o.voucher = v;
        changes.tell();
      },
      (problem) => (o.next = performance.now() + problem.retryAfter + backoff(o.failures++, 4_000, 300_000)),
    );
  }
  return o.voucher;
}

// pause is how long to wait before the next look.
function pause() {
  if (failures > 0) return backoff(failures, 1000, 15_000);
  const now = clock.now();
  const near = (time) => Math.abs(Date.parse(time) - now) < SOON;
  let wait = SLOW;
  for (const v of sales.values()) {
    if (near(v.begin_at) || near(v.end_at) || ["on_sale", "sold_out"].includes(stateOf(v, now))) wait = OPEN;
  }
  return wait * (0.7 + 0.6 * Math.random()); // pages that were opened together do not stay together
}

function plan() {
  clearTimeout(timer);
  if (watching && !document.hidden) timer = setTimeout(refresh, pause());
}

// watch begins to look, and returns the function that ends it.
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
    trouble = { code: "network" };
    changes.tell();
  });
}
