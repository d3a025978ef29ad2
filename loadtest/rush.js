// Many more buyers than units, all at the same time. The run fails if an invariant is broken by a single unit.
//
//   BASE_URL     the server (http://127.0.0.1:8080), without rate limit
//   ADMIN_PHONE  an admin of a server in demo mode (13800000000), or ADMIN_TOKEN
//   TOKENS, BUYERS, P95_MS   see buyers.js
//   STOCK        (200)
//   VUS          concurrent buyers (500, or BUYERS if that is less)
import { check, sleep } from 'k6';
import exec from 'k6/execution';
import { adminToken, createSale, showVoucher, visit } from './api.js';
import { BUYERS, ORDINARY, TRY_AGAIN, checkTotals, common, placeOrders, promises, setting, tokens } from './buyers.js';
import { summary } from './summary.js';

const STOCK = setting('STOCK', 200, 1e6);
const VUS = Math.min(BUYERS, setting('VUS', 500, 5000));

// Seconds before the orders, in which only the page is read, so that connections are open when the orders begin.
const COUNTDOWN = 4;

// Every tenth buyer sends two orders at the same time.
const DOUBLE_EVERY = 10;

// Maximum number of orders per buyer while the outcome is open.
const MAX_TRIES = 30;

export const options = Object.assign({}, common, {
  scenarios: {
    // Reads of the page before, during and after the orders.
    readers: { executor: 'constant-vus', exec: 'read', vus: 5, duration: `${COUNTDOWN + 6}s`, gracefulStop: '15s' },
    rush: {
      executor: 'shared-iterations', exec: 'buy', startTime: `${COUNTDOWN}s`,
      vus: VUS, iterations: BUYERS, maxDuration: '5m',
    },
  },
  thresholds: promises(STOCK, {
    // The exact number of orders, including the last buyer's.
    total_orders: [`value<=${STOCK}`, `value==${Math.min(STOCK, BUYERS + 1)}`],
  }),
});

export function setup() {
  return { voucherID: createSale(adminToken(), 'Rush', STOCK, new Date(Date.now() - 60e3)) };
}

export const read = visit((data) => {
  check(showVoucher(data.voucherID), {
    'reader: stock within bounds': (r) => r.status === 200 && r.json('stock') >= 0 && r.json('stock') <= STOCK,
  });
  sleep(0.2);
});

export const buy = visit((data) => {
  const n = exec.scenario.iterationInTest;
  const since = exec.scenario.startTime;
  let times = n % DOUBLE_EVERY === 0 ? 2 : 1;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const outcomes = placeOrders(tokens[n], data.voucherID, (o) => ORDINARY.includes(o.code), { since, times });
    const undecided = outcomes.find((o) => TRY_AGAIN.includes(o.code));
    if (!undecided || outcomes.some((o) => o.code === 'ok')) {
      return;
    }
    times = 1;
    sleep(undecided.retryAfter);
  }
});

export function teardown(data) {
  checkTotals(data.voucherID);
}

export const handleSummary = summary(`rush: ${STOCK} units, ${BUYERS} buyers, ${VUS} concurrently`);
