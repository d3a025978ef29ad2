// The rate of orders jumps from low to high at the moment when the sale begins. Orders before that moment must be
// refused, and orders after it can succeed.
//
//   BASE_URL     the server (http://127.0.0.1:8080), without rate limit
//   ADMIN_PHONE  an admin of a server in demo mode (13800000000), or ADMIN_TOKEN
//   TOKENS, BUYERS, P95_MS   see buyers.js
//   STOCK                          (200)
//   SPIKE_CALM, SPIKE_RATE         orders per second before and after the peak, and during it (20, 400)
//   SPIKE_BEFORE, SPIKE_DURATION   length of the time before and after the peak, and of the peak (5s, 10s)
import exec from 'k6/execution';
import { adminToken, createSale, visit } from './api.js';
import { BUYERS, ORDINARY, checkTotals, common, part, placeOrders, promises, seconds, setting, tokens } from './buyers.js';
import { summary } from './summary.js';

const STOCK = setting('STOCK', 200, 1e6);
const CALM = setting('SPIKE_CALM', 20, 10000);
const RATE = setting('SPIKE_RATE', 400, 10000);
const BEFORE = seconds('SPIKE_BEFORE', '5s', 600);
const DURATION = seconds('SPIKE_DURATION', '10s', 600);

// Maximum difference of the clocks of this machine, of the server and of Redis in ms.
const SKEW = 500;

const calm = part('1_calm');
const peak = part('2_peak');
const after = part('3_after');

export const options = Object.assign({}, common, {
  scenarios: {
    spike: {
      executor: 'ramping-arrival-rate', startRate: CALM, timeUnit: '1s',
      stages: [
        { target: CALM, duration: `${BEFORE}s` },
        { target: RATE, duration: '0s' }, { target: RATE, duration: `${DURATION}s` },
        { target: CALM, duration: '0s' }, { target: CALM, duration: `${BEFORE}s` },
      ],
      preAllocatedVUs: Math.min(500, RATE), gracefulStop: '60s',
    },
  },
  thresholds: promises(STOCK, { answers_sale_not_started: ['count>0'], orders_placed: ['count>0'] }),
});

// setup creates a sale that begins at the peak. The scenario starts as soon as setup returns.
export function setup() {
  const admin = adminToken();
  const begin = Date.now() + BEFORE * 1000;
  return { voucherID: createSale(admin, 'Spike', STOCK, new Date(begin)), begin };
}

export default visit((data) => {
  const token = tokens[exec.scenario.iterationInTest % BUYERS];
  const sent = Date.now();
  const expected = (o) => {
    const tooEarly = o.code === 'sale_not_started';
    return (tooEarly && sent < data.begin + SKEW) || (ORDINARY.includes(o.code) && Date.now() > data.begin - SKEW);
  };
  placeOrders(token, data.voucherID, expected, { since: data.begin, latency: partAt(sent - data.begin) });
});

function partAt(ms) {
  if (ms < 0) {
    return calm;
  }
  return ms < DURATION * 1000 ? peak : after;
}

export function teardown(data) {
  checkTotals(data.voucherID);
}

export const handleSummary = summary(`spike: ${STOCK} units, ${BUYERS} buyers, from ${CALM} to ${RATE} orders per second`);
