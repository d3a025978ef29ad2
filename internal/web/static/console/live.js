// The live statistics of a sale: the current figures and the history of the last ten minutes.

import { getMine } from "../lib/api.js";
import { follow, HELD, pauseOrOnline } from "../lib/stream.js";

const KEEP = 600; // seconds
const STALE = 5_000; // ms; the server sends an event every second
const POLL = 2_000; // ms, where a proxy holds the events back

// watch follows a sale until the returned function is called. It calls onUpdate({stats, seconds, stale, receivedAt,
// problem}) with each event and at least once a second. `seconds` has no gaps: a second without data is {at} alone.
export function watch(id, onUpdate) {
  const history = new Map(); // by seconds since 1970
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
    const last = Math.max(...history.keys());
    for (const at of history.keys()) if (at <= last - KEEP) history.delete(at);
    update();
  }

  function update() {
    onUpdate({ stats, seconds: withoutGaps(history), stale: performance.now() - received > STALE, receivedAt, problem });
  }

  const timer = setInterval(update, 1000);
  const setProblem = (p) => {
    problem = p;
    if (p) update();
  };

  async function run() {
    const onEvent = (event) => event.event === "stats" && add(JSON.parse(event.data));
    while (await follow(`/admin/vouchers/${id}/events`, { signal: abort.signal, onEvent, onProblem: setProblem })) {
      for (const until = performance.now() + HELD; performance.now() < until; await pauseOrOnline(POLL, abort.signal)) {
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

// withoutGaps returns every second from the first to the last known one.
function withoutGaps(history) {
  if (history.size === 0) return [];
  const all = [];
  const last = Math.max(...history.keys());
  for (let at = Math.min(...history.keys()); at <= last; at++) all.push(history.get(at) ?? { at: new Date(at * 1000).toISOString() });
  return all;
}
