// The figures of one second of a sale, for plots and the table.

// durable counts committed orders, accepted counts orders that were promised to a buyer; in lane queue an order is
// accepted before it is committed. All figures are null for a second without data.
export const durable = (s) => (s.settled ? s.settled.ok ?? 0 : null);
export const accepted = (s) => (s.outcomes ? s.outcomes.ok ?? 0 : null);

// codes of rejections in stacking order. The last one includes all other codes.
export const codes = ["sold_out", "duplicate_order", "order_in_progress", "rate_limited", "overloaded", "unavailable", "other"];
const notRejected = ["ok", "replayed"]; // a replayed answer was counted when it was first given

// refused counts the rejections with a code in a second: of requests, and of queued orders that could not be committed.
export function refused(s, code) {
  if (!s.outcomes) return null;
  const all = [...Object.entries(s.outcomes), ...Object.entries(s.settled)];
  return all.reduce((sum, [c, n]) => (code === (codes.includes(c) ? c : "other") && !notRejected.includes(c) ? sum + n : sum), 0);
}

// refusals counts all rejections in a second.
export const refusals = (s) => (s.outcomes ? codes.reduce((sum, code) => sum + refused(s, code), 0) : null);

// latency returns a percentile of the response time, or null if there were no responses.
const latency = (name) => (s) => (s.outcomes && Object.keys(s.outcomes).length > 0 ? s[name] : null);

// batch returns the average number of orders per transaction, or null if there was no transaction.
export const batch = (s) => (s.batches > 0 ? s.batch_rows / s.batches : null);

const fact = (name) => (s) => s[name] ?? null;

// soldPlot shows the orders placed since a sale began, whatever became of them, by the periods of the curve, and hourPlots the last hour.
export const soldPlot = { name: "sold", stepped: true, series: [{ name: "sold", value: (p) => p.sold }] };
export const hourPlots = [
  { name: "rate", counts: true, series: [{ name: "ok", value: (p) => p.orders }, { name: "refused", value: (p) => p.refused }] },
  { name: "left", dots: "sparse", stepped: true, series: [{ name: "left", value: (p) => p.stock }] },
];

// course returns the points of soldPlot from the beginning of a sale until its end, or until the time `at` of the figures.
export function course(curve, { begin_at: begin, end_at: end }, at) {
  let sold = 0;
  const points = curve.map((p) => ({ at: p.at, sold: (sold += p.orders) }));
  const time = (p) => Date.parse(p.at);
  const first = { at: begin, sold: 0 };
  const last = { at: Date.parse(end) < Date.parse(at) ? end : at, sold };
  return [first, ...points, last].filter((p) => time(p) >= time(first) && time(p) <= Math.max(time(last), time(points.at(-1) ?? first)));
}

// The technical plots of a sale. A series is {name, value(second)}. `stacked` draws the series as stacked areas. `counts` means that
// the series count events: the accessible name of the plot then gives their sums instead of their last values.
// Those with `queue` belong to lane queue.
export const plots = [
  { name: "orders", counts: true, series: [{ name: "durable", value: durable }, { name: "accepted", value: accepted, queue: true }] },
  { name: "refusals", counts: true, stacked: true, series: codes.map((code) => ({ name: code, value: (s) => refused(s, code) })) },
  { name: "stock", series: [{ name: "database", value: fact("stock") }, { name: "gate", value: fact("gate"), queue: true }] },
  { name: "latency", series: [{ name: "p50", value: latency("p50_ms") }, { name: "p99", value: latency("p99_ms") }] },
  { name: "batches", dots: true, series: [{ name: "batch", value: batch }] },
  { name: "lag", queue: true, series: [{ name: "lag", value: fact("lag") }] },
];

// inLane returns the items that a lane has.
export const inLane = (lane, items) => items.filter((item) => lane === "queue" || !item.queue);

// columns of the table.
export const columns = [
  { name: "durable", value: durable }, { name: "accepted", value: accepted, queue: true }, { name: "refused", value: refusals },
  { name: "database", value: fact("stock") }, { name: "gate", value: fact("gate"), queue: true }, { name: "batch", value: batch },
  { name: "lag", value: fact("lag"), queue: true }, { name: "p50", value: latency("p50_ms") }, { name: "p99", value: latency("p99_ms") },
];
