// A storm after the end: nothing is left, and most of the crowd comes all the same. Those who bought hear of their order
// and everybody else that it is sold out, and nobody anything else.
//
//   BASE_URL     the server (http://127.0.0.1:8080), without rate limit
//   ADMIN_PHONE  an admin of a server in demo mode (13800000000), or ADMIN_TOKEN
//   TOKENS, BUYERS, P95_MS   see crowd.js
//   SOLDOUT_STOCK, SOLDOUT_VUS, SOLDOUT_DURATION (50, 64 buyers at once, 15s)
import { sleep } from 'k6';
import exec from 'k6/execution';
import { adminToken, createSale, visit } from './api.js';
import { BUYERS, ORDINARY, closeBooks, common, press, promises, seconds, setting, tokens } from './crowd.js';
import { summary } from './summary.js';

if (BUYERS < 2) {
  throw new Error('it takes a buyer who gets a unit, and one who does not');
}
const STOCK = Math.min(BUYERS - 1, setting('SOLDOUT_STOCK', 50, 1000));
const VUS = setting('SOLDOUT_VUS', 64, 5000);
const DURATION = seconds('SOLDOUT_DURATION', '15s', 3600);

// One of so many is a buyer who holds an order.
const HOLDERS = 10;

export const options = Object.assign({}, common, {
  scenarios: {
    storm: { executor: 'constant-vus', vus: VUS, duration: `${DURATION}s`, gracefulStop: '60s' },
  },
  thresholds: promises(STOCK, {
    book_orders: [`value<=${STOCK}`, `value==${STOCK}`],
    heard_sold_out: ['count>0'],
    heard_duplicate_order: ['count>0'],
  }),
});

// setup sells everything, and waits until everybody may know.
export function setup() {
  const voucherID = createSale(adminToken(), 'Sold out', STOCK, new Date(Date.now() - 60e3));
  const orders = [];
  for (let n = 0; n < STOCK; n++) {
    orders.push(pressUntil(n, voucherID, 'ok').orderID);
  }
  pressUntil(STOCK, voucherID, 'sold_out');
  pressUntil(0, voucherID, 'duplicate_order');
  return { voucherID, orders };
}

function pressUntil(n, voucherID, code) {
  for (let tries = 0; tries < 5; tries++) {
    const [o] = press(tokens[n], voucherID, (o) => ORDINARY.includes(o.code));
    if (o.code === code) {
      return o;
    }
    sleep(1);
  }
  throw new Error(`buyer ${n} does not hear ${code}`);
}

export default visit((data) => {
  const i = exec.scenario.iterationInTest;
  const holds = i % HOLDERS === 0;
  const n = holds ? (i / HOLDERS) % STOCK : STOCK + (i % (BUYERS - STOCK));
  const expected = (o) => (holds ? o.code === 'duplicate_order' && o.orderID === data.orders[n] : o.code === 'sold_out');
  press(tokens[n], data.voucherID, expected, { since: exec.scenario.startTime });
});

export function teardown(data) {
  closeBooks(data.voucherID);
}

export const handleSummary = summary(`soldout: ${STOCK} units sold before, ${VUS} buyers at once for ${DURATION} s`);
