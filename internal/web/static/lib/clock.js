// An estimate of the server's clock, by which sales begin and end. The device's clock may be minutes off and may be set
// while the page is open, so time between two answers is measured with performance.now(). Only while a device sleeps, when
// that may stand still, its clock tells the time.

const KEEP = 8;
const SLACK = 100; // ms; more than the two clocks drift apart between two answers
const DATE_SLACK = 1000; // ms; a Date header has whole seconds
const SLEPT = 1000; // ms by which the device's clock has gone further than performance.now()
let samples = []; // {offset, rtt, device} in ms; offset is server time, device that of the device, minus performance.now()
let coarse = null; // the same from a Date header, used while there are no samples

// observe records the time in the headers of an answer: X-Server-Time, or else Date. The request was sent at `sent` and they arrived
// at `got` (performance.now()): the server read its clock between the two.
export function observe(headers, sent, got) {
  const exact = headers.has("X-Server-Time");
  const at = exact ? Date.parse(headers.get("X-Server-Time")) : Date.parse(headers.get("Date")) + 500;
  if (Number.isNaN(at)) return;
  const fresh = { offset: at - (sent + got) / 2, rtt: got - sent, device: Date.now() - performance.now() };
  dropContradicted(fresh, exact ? SLACK : DATE_SLACK);
  if (exact) samples.push(fresh);
  else coarse = fresh;
  if (samples.length > KEEP) samples.shift();
}

// dropContradicted removes the samples that are impossible if the newest one is right. That happens when the device's clock
// has been set.
function dropContradicted(fresh, slack) {
  samples = samples.filter((s) => Math.abs(s.offset + slept(s) - fresh.offset) <= (s.rtt + fresh.rtt) / 2 + slack);
}

// slept returns for how long performance.now() has stood still since a sample.
function slept(sample) {
  const ms = Date.now() - performance.now() - sample.device;
  return ms > SLEPT ? ms : 0;
}

// now returns the server's time in ms since 1970. It uses the sample with the shortest round trip, whose error is at most
// half of that round trip.
export function now() {
  let best = samples[0] ?? coarse;
  if (!best) return Date.now();
  for (const s of samples) if (s.rtt <= best.rtt) best = s;
  return performance.now() + best.offset + slept(best);
}
