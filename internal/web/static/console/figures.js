// What is drawn of a second of a sale, and said of it in a table.

// durable are the orders that were committed; accepted those that were promised, which in the lane queue comes first. Of
// a second of which nothing is known all figures are null.
export const durable = (s) => (s.settled ? s.settled.ok ?? 0 : null);
export const accepted = (s) => (s.outcomes ? s.outcomes.ok ?? 0 : null);

// codes of refusals, in the order in which they are stacked; the last takes all others.
export const codes = ["sold_out", "duplicate_order", "order_in_progress", "rate_limited", "overloaded", "unavailable", "other"];
const noRefusal = ["ok", "replayed"]; // what is answered again under its key was counted when it was done

// refused are the refusals of a code in a second: at the door, and of what was admitted and could not be made.
export function refused(s, code) {
  if (!s.outcomes) return null;
  const all = [...Object.entries(s.outcomes), ...Object.entries(s.settled)];
  return all.reduce((sum, [c, n]) => (code === (codes.includes(c) ? c : "other") && !noRefusal.includes(c) ? sum + n : sum), 0);
}

// refusals are all of them.
export const refusals = (s) => (s.outcomes ? codes.reduce((sum, code) => sum + refused(s, code), 0) : null);

// took is a percentile, where anybody was answered.
const took = (name) => (s) => (s.outcomes && Object.keys(s.outcomes).length > 0 ? s[name] : null);

// batch is how many orders a transaction made, on average; null where there was none.
export const batch = (s) => (s.batches > 0 ? s.batch_rows / s.batches : null);

const fact = (name) => (s) => s[name] ?? null;

// plots are the pictures of a sale: their series are {name, value(second)}, drawn as lines or stacked. Of those that count
// what happened the sums are worth saying.
export const plots = [
  { name: "orders", counts: true, series: [{ name: "durable", value: durable }, { name: "accepted", value: accepted }] },
  { name: "refusals", counts: true, stacked: true, series: codes.map((code) => ({ name: code, value: (s) => refused(s, code) })) },
  { name: "stock", series: [{ name: "database", value: fact("stock") }, { name: "gate", value: fact("gate") }] },
  { name: "latency", series: [{ name: "p50", value: took("p50_ms") }, { name: "p99", value: took("p99_ms") }] },
  { name: "batches", dots: true, series: [{ name: "batch", value: batch }] },
  { name: "lag", series: [{ name: "lag", value: fact("lag") }] },
];

// columns are the figures of a second, for the table.
export const columns = [
  ["durable", durable], ["accepted", accepted], ["refused", refusals], ["database", fact("stock")], ["gate", fact("gate")],
  ["batch", batch], ["lag", fact("lag")], ["p50", took("p50_ms")], ["p99", took("p99_ms")],
];
