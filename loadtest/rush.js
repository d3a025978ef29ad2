// Many more buyers than units, all in the same moment. The run fails if the books do not balance to the unit.
//
//   BASE_URL     the server (http://127.0.0.1:8080), without rate limit
//   TOKENS       file of user_id,access_token lines, as `seckill seed` writes it
//   ADMIN_PHONE  an admin of a server in demo mode (13800000000), or ADMIN_TOKEN
//   BUYERS, STOCK (all of the file, 200)
//   VUS          buyers at once (500 at most): the others press as soon as one of them has an answer
//   P95_MS       (2000, after which a buyer's page gives up)
import http from 'k6/http';
import { check, sleep } from 'k6';
import { SharedArray } from 'k6/data';
import exec from 'k6/execution';
import { Counter, Gauge, Rate } from 'k6/metrics';
import { adminToken, createSale, outcome, placeRequest, showVoucher } from './api.js';

const tokens = new SharedArray('tokens', () => {
  const lines = open(__ENV.TOKENS).split('\n').filter((l) => l !== '');
  return lines.map((l) => l.slice(l.indexOf(',') + 1));
});

const BUYERS = Number(__ENV.BUYERS || tokens.length);
const STOCK = Number(__ENV.STOCK || 200);
if (!(BUYERS >= 1 && BUYERS <= tokens.length && STOCK >= 0)) {
  throw new Error(`BUYERS=${BUYERS}, STOCK=${STOCK}, and ${tokens.length} tokens in ${__ENV.TOKENS}`);
}

const VUS = Math.min(BUYERS, Number(__ENV.VUS || 500));

// The countdown in seconds: people look at the page before they buy, and connections are open when it ends.
const COUNTDOWN = 4;

// Every tenth buyer presses twice at the same time.
const IMPATIENT = 10;

// How often a buyer who is told to try again does so.
const MAX_TRIES = 30;
const TRY_AGAIN = ['order_in_progress', 'rate_limited', 'overloaded', 'unavailable'];

// What a buyer may hear. Any other code is a failure of the server.
const CODES = ['ok', 'sold_out', 'duplicate_order', 'order_in_progress', 'rate_limited', 'overloaded'];

const answers = {};
for (const code of CODES) {
  answers[code] = new Counter(`answer_${code}`);
}
const otherAnswers = new Counter('answer_other');
const unexpected = new Rate('unexpected_answers');
const orders = new Counter('orders');                // committed, by what buyers were told
const unitsAccounted = new Counter('units_accounted'); // orders, and in the end the units left
const unitsLeft = new Gauge('units_left');
const greedy = new Counter('buyers_with_two_orders');

const ORDER = '{name:POST /vouchers/{id}/orders}';

export const options = {
  scenarios: {
    // Pages that are looked at and reloaded, before, during and after: the sold-out answer of a sale is not its only load.
    onlookers: { executor: 'constant-vus', exec: 'look', vus: 5, duration: `${COUNTDOWN + 6}s`, gracefulStop: '15s' },
    rush: {
      executor: 'shared-iterations', exec: 'buy', startTime: `${COUNTDOWN}s`,
      vus: VUS, iterations: BUYERS, maxDuration: '5m',
    },
  },
  thresholds: {
    orders: [`count<=${STOCK}`, `count>=${Math.min(STOCK, BUYERS)}`], // I1 no oversell, I5 no undersell
    units_accounted: [`count==${STOCK}`],                             // I3 conservation
    units_left: [`value==${Math.max(STOCK - BUYERS, 0)}`],
    buyers_with_two_orders: ['count==0'],                             // I2
    unexpected_answers: ['rate==0'],
    checks: ['rate==1'],
    http_req_failed: ['rate==0'],
    [`http_req_duration${ORDER}`]: [`p(95)<${Number(__ENV.P95_MS || 2000)}`],
  },
  summaryTrendStats: ['min', 'med', 'p(90)', 'p(95)', 'p(99)', 'max'],
};

export function setup() {
  return { voucherID: createSale(adminToken(), 'Rush', STOCK, new Date(Date.now() - 60e3)) };
}

export function look(data) {
  check(showVoucher(data.voucherID), {
    'onlooker: stock within bounds': (r) => r.status === 200 && r.json('stock') >= 0 && r.json('stock') <= STOCK,
  });
  sleep(0.2);
}

function count(code) {
  (answers[code] || otherAnswers).add(1);
  const known = answers[code] !== undefined;
  unexpected.add(!known);
  if (!known) {
    console.error(`unexpected answer: ${code}`);
  }
}

export function buy(data) {
  const n = exec.scenario.iterationInTest;
  const token = tokens[n];
  const request = placeRequest(token, data.voucherID);
  let presses = n % IMPATIENT === 0 ? [request, request] : [request];
  const held = new Set();
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const heard = http.batch(presses).map((res) => outcome(res, token));
    heard.forEach((o) => count(o.code));
    heard.filter((o) => o.code === 'ok').forEach((o) => held.add(o.orderID));
    const last = heard.find((o) => TRY_AGAIN.includes(o.code));
    if (held.size > 0 || !last) {
      break;
    }
    presses = [request];
    sleep(last.retryAfter);
  }
  orders.add(held.size);
  unitsAccounted.add(held.size);
  if (held.size > 1) {
    greedy.add(1);
  }
}

export function teardown(data) {
  const res = showVoucher(data.voucherID);
  check(res, { 'the sale is there': (r) => r.status === 200 });
  unitsLeft.add(res.json('stock'));
  unitsAccounted.add(res.json('stock'));
}

// handleSummary prints what a person wants to know. The verdict is that of the thresholds, which also make the exit code.
export function handleSummary(data) {
  const value = (metric, key) => (data.metrics[metric] ? data.metrics[metric].values[key] : 0) || 0;
  const took = data.metrics[`http_req_duration${ORDER}`].values;
  const lines = [`rush: ${STOCK} units, ${BUYERS} buyers, ${VUS} at once`];
  lines.push(`  durable orders       ${value('orders', 'count')}`);
  for (const code of CODES.filter((c) => c !== 'ok')) {
    lines.push(`  ${code.padEnd(20)} ${value(`answer_${code}`, 'count')}`);
  }
  lines.push(`  other answers        ${value('answer_other', 'count')}`);
  lines.push(`  units left           ${value('units_left', 'value')}`);
  lines.push(`  time to answer       ${['med', 'p(95)', 'p(99)', 'max'].map((k) => `${k} ${took[k].toFixed(1)} ms`).join(', ')}`);
  const broken = [];
  for (const [name, metric] of Object.entries(data.metrics)) {
    for (const [threshold, result] of Object.entries(metric.thresholds || {})) {
      if (!result.ok) {
        broken.push(`  BROKEN ${name}: ${threshold}`);
      }
    }
  }
  lines.push(broken.length === 0 ? 'verdict: every promise holds' : `verdict: BROKEN\n${broken.join('\n')}`);
  return { stdout: `${lines.join('\n')}\n` };
}
