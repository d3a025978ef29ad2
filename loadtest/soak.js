// A steady rate for a long time. A buyer who holds a unit gives it back when he comes again, and it is bought again. The
// summary shows the latency of each quarter of the run: it should be the same in all.
//
//   BASE_URL     the server (http://127.0.0.1:8080), without rate limit
//   ADMIN_PHONE  an admin of a server in demo mode (13800000000), or ADMIN_TOKEN
//   TOKENS, BUYERS, P95_MS   see crowd.js
//   SOAK_RATE, SOAK_DURATION (50 presses a second, 5m)
import { check } from 'k6';
import exec from 'k6/execution';
import { adminToken, cancel, createSale, expecting, visit } from './api.js';
import { BUYERS, ORDINARY, closeBooks, common, gaveBack, part, press, promises, seconds, setting, tokens } from './crowd.js';
import { summary } from './summary.js';

const RATE = setting('SOAK_RATE', 50, 10000);
const DURATION = seconds('SOAK_DURATION', '5m', 12 * 3600);

// Everybody comes about six times, but at least once a minute: no order gets so old that the server closes it unpaid.
const GUESTS = Math.max(2, Math.min(BUYERS, Math.floor(RATE * Math.min(DURATION / 6, 60))));

// Less than half can hold a unit, so that the sale is sold out and opens again all the time.
const STOCK = Math.ceil(GUESTS * 0.4);

const quarters = [1, 2, 3, 4].map((n) => part(`quarter_${n}`));

export const options = Object.assign({}, common, {
  scenarios: {
    soak: {
      executor: 'constant-arrival-rate', rate: RATE, timeUnit: '1s', duration: `${DURATION}s`,
      preAllocatedVUs: Math.min(500, RATE * 2), gracefulStop: '60s',
    },
  },
  thresholds: promises(STOCK, { orders_told: [`count>${STOCK}`] }), // units that came back were bought again
});

export function setup() {
  return { voucherID: createSale(adminToken(), 'Soak', STOCK, new Date(Date.now() - 60e3), DURATION + 3600) };
}

export default visit((data) => {
  const token = tokens[exec.scenario.iterationInTest % GUESTS];
  const latency = quarters[Math.min(3, Math.floor(exec.scenario.progress * 4))];
  const since = exec.scenario.startTime;
  const [o] = press(token, data.voucherID, (o) => ORDINARY.includes(o.code), { since, latency });
  if (o.code === 'duplicate_order') {
    giveBack(token, o.orderID);
  }
});

// giveBack cancels. Somebody who comes twice at the same time finds it done.
function giveBack(token, orderID) {
  const res = cancel(token, orderID, expecting(200, 409));
  const done = res.status === 200 && res.json('status') === 'cancelled';
  check(res, { 'cancel: cancelled, or it was before': (r) => done || (r.status === 409 && r.json('code') === 'invalid_state') });
  if (done) {
    gaveBack();
  }
}

export function teardown(data) {
  closeBooks(data.voucherID);
}

export const handleSummary = summary(`soak: ${STOCK} units, ${GUESTS} buyers, ${RATE} presses a second for ${DURATION} s`);
