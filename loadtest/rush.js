// Many more buyers than units, all in the same moment. The run fails if the books do not balance to the unit.
//
//   BASE_URL     the server (http://127.0.0.1:8080), without rate limit
//   ADMIN_PHONE  an admin of a server in demo mode (13800000000), or ADMIN_TOKEN
//   TOKENS, BUYERS, P95_MS   see crowd.js
//   STOCK        (200)
//   VUS          buyers at once (500 at most): the others press as soon as one of them has an answer
import { check, sleep } from 'k6';
import exec from 'k6/execution';
import { adminToken, createSale, showVoucher, visit } from './api.js';
import { BUYERS, ORDINARY, TRY_AGAIN, closeBooks, common, press, promises, setting, tokens } from './crowd.js';
import { summary } from './summary.js';

const STOCK = setting('STOCK', 200, 1e6);
const VUS = Math.min(BUYERS, setting('VUS', 500, 5000));

// The countdown in seconds: people look at the page before they buy, and connections are open when it ends.
const COUNTDOWN = 4;

// Every tenth buyer presses twice at the same time.
const IMPATIENT = 10;

// How often a buyer who is told to try again does so.
const MAX_TRIES = 30;

export const options = Object.assign({}, common, {
  scenarios: {
    // Pages that are looked at and reloaded, before, during and after: the sold-out answer of a sale is not its only load.
    onlookers: { executor: 'constant-vus', exec: 'look', vus: 5, duration: `${COUNTDOWN + 6}s`, gracefulStop: '15s' },
    rush: {
      executor: 'shared-iterations', exec: 'buy', startTime: `${COUNTDOWN}s`,
      vus: VUS, iterations: BUYERS, maxDuration: '5m',
    },
  },
  thresholds: promises(STOCK, {
    // Everybody came, and the latecomer: that is how many there must be.
    book_orders: [`value<=${STOCK}`, `value==${Math.min(STOCK, BUYERS + 1)}`],
  }),
});

export function setup() {
  return { voucherID: createSale(adminToken(), 'Rush', STOCK, new Date(Date.now() - 60e3)) };
}

export const look = visit((data) => {
  check(showVoucher(data.voucherID), {
    'onlooker: stock within bounds': (r) => r.status === 200 && r.json('stock') >= 0 && r.json('stock') <= STOCK,
  });
  sleep(0.2);
});

export const buy = visit((data) => {
  const n = exec.scenario.iterationInTest;
  const since = exec.scenario.startTime;
  let times = n % IMPATIENT === 0 ? 2 : 1;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const outcomes = press(tokens[n], data.voucherID, (o) => ORDINARY.includes(o.code), { since, times });
    const undecided = outcomes.find((o) => TRY_AGAIN.includes(o.code));
    if (!undecided || outcomes.some((o) => o.code === 'ok')) {
      return;
    }
    times = 1;
    sleep(undecided.retryAfter);
  }
});

export function teardown(data) {
  closeBooks(data.voucherID);
}

export const handleSummary = summary(`rush: ${STOCK} units, ${BUYERS} buyers, ${VUS} at once`);
