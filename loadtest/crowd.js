// A crowd of buyers for one sale: who they are, how they press, what they hear, and what the books say when they are gone.
//
//   TOKENS   file of user_id,access_token lines, as `seckill seed` writes it. The last user in it is the latecomer, who
//            presses when everybody else is gone; the others are the crowd.
//   BUYERS   how many of the crowd come (all of the file)
//   P95_MS   (5000) the time within which the server promises an answer
import http from 'k6/http';
import { check, sleep } from 'k6';
import { SharedArray } from 'k6/data';
import { Counter, Gauge, Rate, Trend } from 'k6/metrics';
import { ordersToPayRequest, outcome, placeRequest, showVoucher } from './api.js';

export const tokens = new SharedArray('tokens', () => {
  const lines = open(__ENV.TOKENS).split('\n').filter((l) => l !== '');
  return lines.map((l) => l.slice(l.indexOf(',') + 1));
});
const latecomer = tokens.length - 1;

// setting reads a whole number from the environment. Each has an upper bound, for a load test must end.
export function setting(name, fallback, most) {
  const n = Number(__ENV[name] || fallback);
  if (!(Number.isInteger(n) && n >= 1 && n <= most)) {
    throw new Error(`${name} is ${__ENV[name] || fallback}, and not a whole number from 1 to ${most}`);
  }
  return n;
}

// seconds reads a duration such as 90s, 5m or 2h.
export function seconds(name, fallback, most) {
  const text = __ENV[name] || fallback;
  const [, n, unit] = /^(\d+)([smh])$/.exec(text) || [];
  const total = Number(n) * { s: 1, m: 60, h: 3600 }[unit];
  if (!(total >= 1 && total <= most)) {
    throw new Error(`${name} is ${text}, and not a duration from 1s to ${most}s, such as 90s, 5m or 2h`);
  }
  return total;
}

export const BUYERS = setting('BUYERS', latecomer, latecomer);

// What a buyer may hear in the middle of a sale. Any other code is a failure of the server.
export const ORDINARY = ['ok', 'sold_out', 'duplicate_order', 'order_in_progress', 'rate_limited', 'overloaded'];

// What leaves open what will become of the buyer: he presses again after the time that the server names.
export const TRY_AGAIN = ['order_in_progress', 'rate_limited', 'overloaded'];

// The codes that are counted one by one.
export const CODES = [...ORDINARY, 'sale_not_started'];

export const ORDER_ANSWERS = 'http_req_duration{name:POST /vouchers/{id}/orders}';

const heard = {};
for (const code of CODES) {
  heard[code] = new Counter(`heard_${code}`);
}
const heardOther = new Counter('heard_other');
const unexpected = new Rate('unexpected_answers');
const toOutcome = new Trend('to_outcome', true);
const pressed = new Trend('pressed_after', true); // since the crowd was let in
const ordered = new Trend('ordered_after', true);
const told = new Counter('orders_told');
const accounted = new Counter('units_accounted'); // told orders less the cancelled ones, and in the end the units left

const books = {
  read: new Gauge('book_read'),
  orders: new Gauge('book_orders'),
  left: new Gauge('book_left'),
  sum: new Gauge('book_sum'),
  greedy: new Gauge('book_greedy'),
  unbought: new Gauge('book_unbought'),
  repeated: new Gauge('book_repeated'),
};

// part makes a latency of its own for a part of the run: an option of press, and a line of the summary.
export function part(name) {
  return new Trend(`to_outcome_${name}`, true);
}

// press has one buyer press the button `times` times at the same moment, and returns what he heard, each followed to
// its end. expected(outcome) says whether he may hear that; since is when the crowd was let in, in ms since 1970.
export function press(token, voucherID, expected, { since, times = 1, latency } = {}) {
  const request = placeRequest(token, voucherID);
  const outcomes = http.batch(Array(times).fill(request)).map((res) => outcome(res, token));
  for (const o of outcomes) {
    count(o, expected(o), latency);
  }
  const bought = new Set(outcomes.filter((o) => o.code === 'ok').map((o) => o.orderID)).size;
  told.add(bought);
  accounted.add(bought);
  if (since) {
    pressed.add(Date.now() - since);
    if (bought > 0) {
      ordered.add(Date.now() - since);
    }
  }
  return outcomes;
}

// A server that is down would fill the terminal: each virtual user complains so often.
const COMPLAINTS = 5;
let complaints = 0;

function count(o, expected, latency) {
  (heard[o.code] || heardOther).add(1);
  toOutcome.add(o.took);
  if (latency) {
    latency.add(o.took);
  }
  unexpected.add(!expected);
  if (!expected && complaints++ < COMPLAINTS) {
    console.error(`unexpected answer: ${o.code}, order ${o.orderID}`);
  }
}

// gaveBack notes that a told order was cancelled.
export function gaveBack() {
  accounted.add(-1);
}

// closeBooks is for the teardown, when the crowd is gone. A latecomer tries to buy; then what the server has in its books
// becomes metrics, for promises to judge.
export function closeBooks(voucherID) {
  books.unbought.add(sellLast(voucherID) ? 0 : 1);
  const orders = [];
  let greedy = 0;
  for (const own of ordersOfAll(voucherID)) {
    greedy += own.length > 1 ? 1 : 0;
    orders.push(...own);
  }
  const left = unitsLeft(voucherID);
  books.orders.add(orders.length);
  books.left.add(left);
  books.sum.add(orders.length + left);
  books.greedy.add(greedy);
  books.repeated.add(orders.length - new Set(orders).size);
  accounted.add(left);
  books.read.add(1);
}

// unitsLeft reads the books, of which there are none while the server does not answer.
function unitsLeft(voucherID) {
  const res = showVoucher(voucherID);
  if (!check(res, { 'the sale is there': (r) => r.status === 200 })) {
    throw new Error(`read the sale: ${res.status} ${res.body}`);
  }
  return res.json('stock');
}

// How often the latecomer presses, once a second. A unit that came back can be bought within a second.
const LATE_TRIES = 10;

// sellLast says whether somebody who holds nothing can buy a unit that nobody holds.
function sellLast(voucherID) {
  for (let tries = 0; tries < LATE_TRIES; tries++) {
    const left = unitsLeft(voucherID);
    const [o] = press(tokens[latecomer], voucherID, (o) => ORDINARY.includes(o.code));
    if (o.code === 'ok' || (o.code === 'sold_out' && left === 0)) {
      return true;
    }
    sleep(1);
  }
  return false;
}

// ordersOfAll returns the ids of the orders of this sale that each buyer holds. Nobody pays in these tests.
function ordersOfAll(voucherID) {
  const all = [];
  const people = [...Array(BUYERS).keys(), latecomer];
  for (let i = 0; i < people.length; i += 20) {
    for (const res of http.batch(people.slice(i, i + 20).map((n) => ordersToPayRequest(tokens[n])))) {
      if (!check(res, { 'the orders of a buyer are there': (r) => r.status === 200 })) {
        throw new Error(`read the orders of a buyer: ${res.status} ${res.body}`);
      }
      all.push(res.json('items').filter((o) => o.voucher_id === voucherID).map((o) => o.id));
    }
  }
  return all;
}

// PROMISES are what the server promises, the metric that shows it, and what it says; v reads a metric of this file.
export const PROMISES = [
  ['I1 no oversell', 'book_orders', (v) => `${v('book_orders')} orders`],
  ['I2 one order per user', 'book_greedy', (v) => `${v('book_greedy')} users with more than one`],
  ['I3 conservation', 'book_sum', (v) => `${v('book_orders')} orders + ${v('book_left')} left = ${v('book_sum')}`],
  ['I4 answers are true', 'units_accounted', (v) => `${v('units_accounted')} = orders that buyers were told of and still want + left`],
  ['I5 no undersell', 'book_unbought', (v) => `${v('book_unbought')} latecomers who could not buy what was left`],
  ['I6 order ids are unique', 'book_repeated', (v) => `${v('book_repeated')} ids seen twice`],
];

// promises are the thresholds of a sale of stock units; more adds to them or replaces them. None aborts a run, and none
// depends on how fast the machine is.
export function promises(stock, more) {
  return Object.assign({
    book_read: ['value==1'],
    book_orders: [`value<=${stock}`],
    book_greedy: ['value==0'],
    book_sum: [`value==${stock}`],
    units_accounted: [`count==${stock}`],
    book_unbought: ['value==0'],
    book_repeated: ['value==0'],
    unexpected_answers: ['rate==0'],
    broken_visits: ['rate==0'],
    checks: ['rate==1'],
    http_req_failed: ['rate==0'],
    [ORDER_ANSWERS]: [`p(95)<${setting('P95_MS', 5000, 60000)}`],
  }, more);
}

// common are the options that every test of a crowd has.
export const common = {
  setupTimeout: '3m',
  teardownTimeout: '5m',
  summaryTrendStats: ['min', 'med', 'p(90)', 'p(95)', 'p(99)', 'max'],
};
