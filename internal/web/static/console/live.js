// The live statistics of a sale: the current figures, the seconds of the last ten minutes, and the last hour.

import { getMine } from "../lib/api.js";
import { sleep } from "../lib/events.js";
import { follow } from "../lib/stream.js";
import { durable, refusals } from "./figures.js";

const KEEP = 3600; // seconds
const SECONDS = 600; // of those that onUpdate gets one by one
const PERIOD = 10; // seconds; those of the server's hour
const STALE = 5_000; // ms; the server sends an event every second
const POLL = 2_000; // ms, where a proxy holds the events back

// watch follows a sale until the returned function is called. It calls onUpdate({stats, seconds, hour, stale, receivedAt,
// problem}) with each event and at least once a second. `seconds` has no gaps: a second without data is {at} alone. `hour` is
// the last hour as {at, orders, refused, stock}, with what happened before the page was opened.
export function watch(id, onUpdate) {
  const history = new Map(); // by seconds since 1970
  const periods = new Map(); // of the server, by their first second
  const abort = new AbortController();
  let stats = null;
  let received = performance.now();
  let receivedAt = null;
  let problem = null;

  function add(latest) {
    stats = latest;
    received = performance.now();
    receivedAt = new Date();
    for (const second of stats.seconds) history.set(Date.parse(second.at) / 1000, second);
    for (const p of stats.hour ?? []) periods.set(Date.parse(p.at) / 1000, p);
    const last = Math.max(...history.keys());
    for (const at of history.keys()) if (at <= last - KEEP) history.delete(at);
    update();
  }

  function update() {
    onUpdate({ stats, seconds: withoutGaps(history), hour: stats ? hourOf(history, periods, Date.parse(stats.totals.since) / 1000) : [], stale: performance.now() - received > STALE, receivedAt, problem });
  }

  const timer = setInterval(update, 1000);
  const setProblem = (p) => {
    problem = p;
    if (p) update();
  };

  async function run() {
    const onEvent = (event) => event.event === "stats" && add(JSON.parse(event.data));
    let held = 0;
    while ((held = await follow(`/admin/vouchers/${id}/events`, { signal: abort.signal, onEvent, onProblem: setProblem }))) {
      for (const until = performance.now() + held; performance.now() < until; await sleep(POLL, abort.signal)) {
        const [latest, failed] = await getMine(`/admin/vouchers/${id}/stats`, { signal: abort.signal }).then((s) => [s], (p) => [null, p]);
        if (abort.signal.aborted) return;
        setProblem(failed ?? null);
        if (latest) add(latest);
      }
    }
  }

  run();
  return () => {
    abort.abort();
    clearInterval(timer);
  };
}

// hourOf returns all periods of the last hour: those whose seconds are known as their sums, earlier ones as the server has
// counted them, and the others with nothing. Nothing was reported before `since`.
export function hourOf(history, periods, since) {
  const known = [...history.keys()];
  if (known.length + periods.size === 0) return [];

  const begin = (at) => at - (at % PERIOD);
  const earliest = Math.min(...known);
  const first = since >= begin(earliest) ? begin(earliest) : Math.ceil(earliest / PERIOD) * PERIOD; // all of its seconds are known
  const hour = new Map([...periods].filter(([at]) => at < first));
  for (const [at, second] of history) {
    if (at < first) continue;
    const p = hour.get(begin(at)) ?? nothingAt(begin(at));
    hour.set(begin(at), { ...p, orders: p.orders + durable(second), refused: p.refused + refusals(second), stock: second.stock ?? p.stock });
  }

  const last = begin(Math.max(...known, ...periods.keys()));
  const begins = Array.from({ length: KEEP / PERIOD }, (_, i) => last - KEEP + (i + 1) * PERIOD);
  return begins.map((at) => hour.get(at) ?? nothingAt(at));
}

const nothingAt = (begin) => ({ at: new Date(begin * 1000).toISOString(), orders: 0, refused: 0, stock: null });

// withoutGaps returns every second from the first to the last known one, of the last ten minutes.
function withoutGaps(history) {
  if (history.size === 0) return [];
  const all = [];
  const last = Math.max(...history.keys());
  for (let at = Math.max(Math.min(...history.keys()), last - SECONDS + 1); at <= last; at++) all.push(history.get(at) ?? { at: new Date(at * 1000).toISOString() });
  return all;
}
