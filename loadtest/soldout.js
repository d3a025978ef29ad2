// Orders from a sold-out sale. Buyers with an order must get duplicate_order with its ID, and all others sold_out.
//
//   BASE_URL     the server (http://127.0.0.1:8080), without rate limit
//   ADMIN_PHONE  an admin of a server in demo mode (13800000000), or ADMIN_TOKEN
//   TOKENS, BUYERS, P95_MS   see buyers.js
//   SOLDOUT_STOCK, SOLDOUT_VUS, SOLDOUT_DURATION (50 units, 64 concurrent buyers, 15s)
import { sleep } from 'k6';
import exec from 'k6/execution';
import { adminToken, createSale, visit } from './api.js';
import { BUYERS, ORDINARY, checkTotals, common, placeOrders, promises, seconds, setting, tokens } from './buyers.js';
import { summary } from './summary.js';

if (BUYERS < 2) {
  throw new Error('at least two buyers are needed: one with a unit and one without');
}
const STOCK = Math.min(BUYERS - 1, setting('SOLDOUT_STOCK', 50, 1000));
const VUS = setting('SOLDOUT_VUS', 64, 5000);
const DURATION = seconds('SOLDOUT_DURATION', '15s', 3600);

// One order in ten comes from a buyer with an active order.
const ACTIVE_EVERY = 10;

export const options = Object.assign({}, common, {
  scenarios: {
    orders: { executor: 'constant-vus', vus: VUS, duration: `${DURATION}s`, gracefulStop: '60s' },
  },
  thresholds: promises(STOCK, {
    total_orders: [`value<=${STOCK}`, `value==${STOCK}`],
    answers_sold_out: ['count>0'],
    answers_duplicate_order: ['count>0'],
  }),
});

// setup sells all units and waits until the server answers sold_out and duplicate_order.
export function setup() {
  const voucherID = createSale(adminToken(), 'Sold out', STOCK, new Date(Date.now() - 60e3));
  const orders = [];
  for (let n = 0; n < STOCK; n++) {
    orders.push(orderUntil(n, voucherID, 'ok').orderID);
  }
  orderUntil(STOCK, voucherID, 'sold_out');
  orderUntil(0, voucherID, 'duplicate_order');
  return { voucherID, orders };
}

function orderUntil(n, voucherID, code) {
  for (let tries = 0; tries < 5; tries++) {
    const [o] = placeOrders(tokens[n], voucherID, (o) => ORDINARY.includes(o.code));
    if (o.code === code) {
      return o;
    }
    sleep(1);
  }
  throw new Error(`buyer ${n} does not get ${code}`);
}

export default visit((data) => {
  const i = exec.scenario.iterationInTest;
  const active = i % ACTIVE_EVERY === 0;
  const n = active ? (i / ACTIVE_EVERY) % STOCK : STOCK + (i % (BUYERS - STOCK));
  const expected = (o) => (active ? o.code === 'duplicate_order' && o.orderID === data.orders[n] : o.code === 'sold_out');
  placeOrders(tokens[n], data.voucherID, expected, { since: exec.scenario.startTime });
});

export function teardown(data) {
  checkTotals(data.voucherID);
}

export const handleSummary = summary(`soldout: ${STOCK} units sold before, ${VUS} concurrent buyers for ${DURATION} s`);
