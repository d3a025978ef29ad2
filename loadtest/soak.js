// A constant rate for a long time. A buyer with an active order cancels it at the next visit, and its unit is sold
// again. The summary shows the latency of each quarter of the run, which should be the same.
//
//   BASE_URL     the server (http://127.0.0.1:8080), without rate limit
//   ADMIN_PHONE  an admin of a server in demo mode (13800000000), or ADMIN_TOKEN
//   TOKENS, BUYERS, P95_MS   see buyers.js
//   SOAK_RATE, SOAK_DURATION (50 visits per second, 5m)
import { check } from 'k6';
import exec from 'k6/execution';
import { adminToken, cancel, createSale, expecting, visit } from './api.js';
import { BUYERS, ORDINARY, checkTotals, common, countCancelled, part, placeOrders, promises, seconds, setting, tokens } from './buyers.js';
import { summary } from './summary.js';

const RATE = setting('SOAK_RATE', 50, 10000);
const DURATION = seconds('SOAK_DURATION', '5m', 12 * 3600);

// Number of buyers such that each visits about six times and at least once a minute, so that no order reaches its
// payment deadline.
const VISITORS = Math.max(2, Math.min(BUYERS, Math.floor(RATE * Math.min(DURATION / 6, 60))));

// Fewer units than half of the buyers, so that the sale sells out and gets units back all the time.
const STOCK = Math.ceil(VISITORS * 0.4);

const quarters = [1, 2, 3, 4].map((n) => part(`quarter_${n}`));

export const options = Object.assign({}, common, {
  scenarios: {
    soak: {
      executor: 'constant-arrival-rate', rate: RATE, timeUnit: '1s', duration: `${DURATION}s`,
      preAllocatedVUs: Math.min(500, RATE * 2), gracefulStop: '60s',
    },
  },
  thresholds: promises(STOCK, { orders_placed: [`count>${STOCK}`] }), // released units were sold again
});

export function setup() {
  return { voucherID: createSale(adminToken(), 'Soak', STOCK, new Date(Date.now() - 60e3), DURATION + 3600) };
}

export default visit((data) => {
  const token = tokens[exec.scenario.iterationInTest % VISITORS];
  const latency = quarters[Math.min(3, Math.floor(exec.scenario.progress * 4))];
  const since = exec.scenario.startTime;
  const [o] = placeOrders(token, data.voucherID, (o) => ORDINARY.includes(o.code), { since, latency });
  if (o.code === 'duplicate_order') {
    cancelOrder(token, o.orderID);
  }
});

// cancelOrder cancels an order. A concurrent visit of the same buyer may have cancelled it already.
function cancelOrder(token, orderID) {
  const res = cancel(token, orderID, expecting(200, 409));
  const done = res.status === 200 && res.json('status') === 'cancelled';
  check(res, { 'cancel: cancelled now or before': (r) => done || (r.status === 409 && r.json('code') === 'invalid_state') });
  if (done) {
    countCancelled();
  }
}

export function teardown(data) {
  checkTotals(data.voucherID);
}

export const handleSummary = summary(`soak: ${STOCK} units, ${VISITORS} buyers, ${RATE} visits per second for ${DURATION} s`);
