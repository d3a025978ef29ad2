// Buyers of one sale: their tokens and requests, the metrics of the answers, and the final check of the invariants.
//
//   TOKENS   file of user_id,access_token lines, as written by `seckill seed`. The last user orders after all others, to
//            test that remaining units can still be bought.
//   BUYERS   number of the other users that order (default: all in the file)
//   P95_MS   maximum of the 95th percentile of the answer time in ms (5000)
import http from 'k6/http';
import { check, sleep } from 'k6';
import { SharedArray } from 'k6/data';
import { Counter, Gauge, Rate, Trend } from 'k6/metrics';
import { ordersToPayRequest, outcome, placeRequest, showVoucher } from './api.js';

export const tokens = new SharedArray('tokens', () => {
  const lines = open(__ENV.TOKENS).split('\n').filter((l) => l !== '');
  return lines.map((l) => l.slice(l.indexOf(',') + 1));
});
const lastBuyer = tokens.length - 1;

// setting reads a whole number from the environment. The upper bound guarantees that the test ends.
export function setting(name, fallback, most) {
  const n = Number(__ENV[name] || fallback);
  if (!(Number.isInteger(n) && n >= 1 && n <= most)) {
    throw new Error(`${name} is ${__ENV[name] || fallback}, not a whole number from 1 to ${most}`);
  }
  return n;
}

// seconds reads a duration such as 90s, 5m or 2h from the environment and returns it in seconds.
export function seconds(name, fallback, most) {
  const text = __ENV[name] || fallback;
  const [, n, unit] = /^(\d+)([smh])$/.exec(text) || [];
  const total = Number(n) * { s: 1, m: 60, h: 3600 }[unit];
  if (!(total >= 1 && total <= most)) {
    throw new Error(`${name} is ${text}, not a duration from 1s to ${most}s, such as 90s, 5m or 2h`);
  }
  return total;
}

export const BUYERS = setting('BUYERS', lastBuyer, lastBuyer);

// Codes that are correct during a sale. Any other code is a server error.
export const ORDINARY = ['ok', 'sold_out', 'duplicate_order', 'order_in_progress', 'rate_limited', 'overloaded'];

// Codes that leave the outcome open. The order is retried after the time in Retry-After.
export const TRY_AGAIN = ['order_in_progress', 'rate_limited', 'overloaded'];

// Codes with a counter of their own.
export const CODES = [...ORDINARY, 'sale_not_started'];

export const ORDER_ANSWERS = 'http_req_duration{name:POST /vouchers/{id}/orders}';

const answers = {};
for (const code of CODES) {
  answers[code] = new Counter(`answers_${code}`);
}
const otherAnswers = new Counter('answers_other');
const unexpected = new Rate('unexpected_answers');
const toOutcome = new Trend('to_outcome', true);
const answered = new Trend('answered_after', true); // time since the start of the sale, of all answers
const ordered = new Trend('ordered_after', true); // the same, of answers with an order
const placed = new Counter('orders_placed'); // as answered to the buyers
const accounted = new Counter('units_accounted'); // placed orders minus cancelled ones, plus the remaining units at the end

// Totals of the sale as shown by the API after the test.
const totals = {
  read: new Gauge('total_read'), // 1 if the others are valid
  orders: new Gauge('total_orders'),
  left: new Gauge('total_left'),
  sum: new Gauge('total_sum'),
  excess: new Gauge('total_excess'), // users with more than one order
  unsold: new Gauge('total_unsold'), // 1 if a remaining unit could not be bought
  repeated: new Gauge('total_repeated'), // order IDs that occurred more than once
};

// part returns a separate latency metric for a part of the run, for the option `latency` of placeOrders and the summary.
export function part(name) {
  return new Trend(`to_outcome_${name}`, true);
}

// placeOrders sends `times` concurrent orders of one buyer and returns their final outcomes. expected(outcome) returns
// whether an outcome is correct. since is the start of the sale in ms since 1970.
export function placeOrders(token, voucherID, expected, { since, times = 1, latency } = {}) {
  const request = placeRequest(token, voucherID);
  const outcomes = http.batch(Array(times).fill(request)).map((res) => outcome(res, token));
  for (const o of outcomes) {
    count(o, expected(o), latency);
  }
  const bought = new Set(outcomes.filter((o) => o.code === 'ok').map((o) => o.orderID)).size;
  placed.add(bought);
  accounted.add(bought);
  if (since) {
    answered.add(Date.now() - since);
    if (bought > 0) {
      ordered.add(Date.now() - since);
    }
  }
  return outcomes;
}

// Maximum number of logged errors per virtual user, because a server that is down would fill the terminal.
const MAX_ERRORS = 5;
let errors = 0;

function count(o, expected, latency) {
  (answers[o.code] || otherAnswers).add(1);
  toOutcome.add(o.took);
  if (latency) {
    latency.add(o.took);
  }
  unexpected.add(!expected);
  if (!expected && errors++ < MAX_ERRORS) {
    console.error(`unexpected answer: ${o.code}, order ${o.orderID}`);
  }
}

// countCancelled counts the cancellation of a placed order.
export function countCancelled() {
  accounted.add(-1);
}

// checkTotals is called in teardown, after all other requests. It tries to buy a last unit and then stores the totals
// of the sale in metrics, which the thresholds of promises check.
export function checkTotals(voucherID) {
  totals.unsold.add(sellLast(voucherID) ? 0 : 1);
  const orders = [];
  let excess = 0;
  for (const own of ordersOfAll(voucherID)) {
    excess += own.length > 1 ? 1 : 0;
    orders.push(...own);
  }
  const left = unitsLeft(voucherID);
  totals.orders.add(orders.length);
  totals.left.add(left);
  totals.sum.add(orders.length + left);
  totals.excess.add(excess);
  totals.repeated.add(orders.length - new Set(orders).size);
  accounted.add(left);
  totals.read.add(1);
}

// unitsLeft returns the stock of the sale. It throws if the server does not answer.
function unitsLeft(voucherID) {
  const res = showVoucher(voucherID);
  if (!check(res, { 'sale: 200': (r) => r.status === 200 })) {
    throw new Error(`read the sale: ${res.status} ${res.body}`);
  }
  return res.json('stock');
}

// Number of orders of the last buyer, one per second. A released unit is for sale within a second.
const LAST_TRIES = 10;

// sellLast returns whether a buyer without an order can buy a remaining unit. It returns true if there is none.
function sellLast(voucherID) {
  for (let tries = 0; tries < LAST_TRIES; tries++) {
    const left = unitsLeft(voucherID);
    const [o] = placeOrders(tokens[lastBuyer], voucherID, (o) => ORDINARY.includes(o.code));
    if (o.code === 'ok' || (o.code === 'sold_out' && left === 0)) {
      return true;
    }
    sleep(1);
  }
  return false;
}

// ordersOfAll returns the IDs of the active orders of this sale, by buyer. All are unpaid in these tests.
function ordersOfAll(voucherID) {
  const all = [];
  const buyers = [...Array(BUYERS).keys(), lastBuyer];
  for (let i = 0; i < buyers.length; i += 20) {
    for (const res of http.batch(buyers.slice(i, i + 20).map((n) => ordersToPayRequest(tokens[n])))) {
      if (!check(res, { 'orders of a buyer: 200': (r) => r.status === 200 })) {
        throw new Error(`read the orders of a buyer: ${res.status} ${res.body}`);
      }
      all.push(res.json('items').filter((o) => o.voucher_id === voucherID).map((o) => o.id));
    }
  }
  return all;
}

// PROMISES are the invariants, each with the metric that its threshold checks and a text. v returns the value of a
// metric.
export const PROMISES = [
  ['I1 No oversell', 'total_orders', (v) => `${v('total_orders')} orders`],
  ['I2 One order per user', 'total_excess', (v) => `${v('total_excess')} users with more than one`],
  ['I3 Conservation', 'total_sum', (v) => `${v('total_orders')} orders + ${v('total_left')} left = ${v('total_sum')}`],
  ['I4 Answers are true', 'units_accounted', (v) => `${v('units_accounted')} = orders answered ok and not cancelled + left`],
  ['I5 No undersell', 'total_unsold', (v) => (v('total_unsold') ? 'a remaining unit could not be bought' : 'remaining units can be bought')],
  ['I6 Order IDs are unique', 'total_repeated', (v) => `${v('total_repeated')} IDs repeated`],
];

// promises returns the thresholds of a sale of stock units. more adds to them or replaces them. No threshold aborts a
// run, and only the answer time depends on the speed of the machine.
export function promises(stock, more) {
  return Object.assign({
    total_read: ['value==1'],
    total_orders: [`value<=${stock}`],
    total_excess: ['value==0'],
    total_sum: [`value==${stock}`],
    units_accounted: [`count==${stock}`],
    total_unsold: ['value==0'],
    total_repeated: ['value==0'],
    unexpected_answers: ['rate==0'],
    broken_visits: ['rate==0'],
    checks: ['rate==1'],
    http_req_failed: ['rate==0'],
    [ORDER_ANSWERS]: [`p(95)<${setting('P95_MS', 5000, 60000)}`],
  }, more);
}

// common are the options of every test with these buyers.
export const common = {
  setupTimeout: '3m',
  teardownTimeout: '5m',
  summaryTrendStats: ['min', 'med', 'p(90)', 'p(95)', 'p(99)', 'max'],
};
