// A sale as the server tells of it each second: what is so now, and the last ten minutes of what happened.

import { follow } from "../lib/stream.js";

const KEEP = 600; // seconds
const STALE = 5_000; // the server tells each second

// watch follows a sale until the function that it returns is called. tell(now) is called with each news, and with each
// second without any: {stats, seconds, stale, heardAt}. `seconds` is without holes: a second of which nothing is known is
// {at} alone.
export function watch(id, tell) {
  const known = new Map(); // by seconds since 1970
  const abort = new AbortController();
  let stats = null;
  let heard = performance.now();
  let heardAt = null;
  let problem = null;

  function take(event) {
    stats = JSON.parse(event.data);
    heard = performance.now();
    heardAt = new Date();
    for (const second of stats.seconds) known.set(Date.parse(second.at) / 1000, second);
    const last = Math.max(...known.keys());
    for (const at of known.keys()) if (at <= last - KEEP) known.delete(at);
    say();
  }

  function say() {
    tell({ stats, seconds: line(known), stale: performance.now() - heard > STALE, heardAt, problem });
  }

  const timer = setInterval(say, 1000);
  follow(`/admin/vouchers/${id}/events`, {
    signal: abort.signal,
    onEvent: (event) => event.event === "stats" && take(event),
    onProblem: (p) => {
      problem = p;
      if (p) say();
    },
  });
  return () => {
    abort.abort();
    clearInterval(timer);
  };
}

// line is every second from the first to the last.
function line(known) {
  if (known.size === 0) return [];
  const all = [];
  const last = Math.max(...known.keys());
  for (let at = Math.min(...known.keys()); at <= last; at++) all.push(known.get(at) ?? { at: new Date(at * 1000).toISOString() });
  return all;
}
