// The server's clock, as well as it can be known from here. Sales begin by it; the clock of a phone may be minutes off,
// and may be set while the page is open, so it is not even asked for the time in between.

const KEEP = 8;
const SLACK = 100; // more than clocks drift apart between two answers
const DATE_SLACK = 1000;
let samples = []; // {offset, rtt} in milliseconds; offset is to performance.now()
let coarse = null; // the same from a Date header, which has whole seconds: for want of something better

// observe takes a time that the server told in an answer. The question left at `sent` and the answer was here at `got`,
// by performance.now(): the server looked at its clock somewhere between them.
export function observe(serverTime, sent, got) {
  const at = Date.parse(serverTime);
  if (Number.isNaN(at)) return;
  const fresh = { offset: at - (sent + got) / 2, rtt: got - sent };
  believe(fresh, SLACK);
  samples.push(fresh);
  if (samples.length > KEEP) samples.shift();
}

// observeDate takes the Date header of an answer.
export function observeDate(date, sent, got) {
  const at = Date.parse(date);
  if (Number.isNaN(at)) return;
  coarse = { offset: at + 500 - (sent + got) / 2, rtt: got - sent };
  believe(coarse, DATE_SLACK);
}

// believe drops what cannot be true if the newest answer is: the device slept, and performance.now() has missed it.
function believe(fresh, slack) {
  samples = samples.filter((s) => Math.abs(s.offset - fresh.offset) <= (s.rtt + fresh.rtt) / 2 + slack);
}

// forget drops what was observed: after a sleep of the device, performance.now() has missed it on some systems.
export function forget() {
  samples = samples.slice(-1);
}

// now is the server's time in milliseconds since 1970. The quickest of the last answers is the one to believe: it is
// wrong by half of its round trip at most.
export function now() {
  let best = samples[0] ?? coarse;
  if (!best) return Date.now();
  for (const s of samples) if (s.rtt <= best.rtt) best = s;
  return performance.now() + best.offset;
}
