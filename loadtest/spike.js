// The sale begins while people wait for it: a calm rate, and many times as much from one moment to the next. Before that
// moment nobody can buy, and from then on whoever comes.
//
//   BASE_URL     the server (http://127.0.0.1:8080), without rate limit
//   ADMIN_PHONE  an admin of a server in demo mode (13800000000), or ADMIN_TOKEN
//   TOKENS, BUYERS, P95_MS   see crowd.js
//   STOCK                          (200)
//   SPIKE_CALM, SPIKE_RATE         presses a second before and after the jump, and in it (20, 400)
//   SPIKE_BEFORE, SPIKE_DURATION   (5s, 10s)
import exec from 'k6/execution';
import { adminToken, createSale, visit } from './api.js';
import { BUYERS, ORDINARY, closeBooks, common, part, press, promises, seconds, setting, tokens } from './crowd.js';
import { summary } from './summary.js';

const STOCK = setting('STOCK', 200, 1e6);
const CALM = setting('SPIKE_CALM', 20, 10000);
const RATE = setting('SPIKE_RATE', 400, 10000);
const BEFORE = seconds('SPIKE_BEFORE', '5s', 600);
const DURATION = seconds('SPIKE_DURATION', '10s', 600);

// How far the clocks of this machine, of the server and of Redis may differ, in ms.
const SKEW = 500;

const calm = part('1_calm');
const jump = part('2_jump');
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
  thresholds: promises(STOCK, { heard_sale_not_started: ['count>0'], orders_told: ['count>0'] }),
});

// setup makes the sale begin when the calm ends: the scenario starts as soon as this returns.
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
  press(token, data.voucherID, expected, { since: data.begin, latency: partAt(sent - data.begin) });
});

function partAt(ms) {
  if (ms < 0) {
    return calm;
  }
  return ms < DURATION * 1000 ? jump : after;
}

export function teardown(data) {
  closeBooks(data.voucherID);
}

export const handleSummary = summary(`spike: ${STOCK} units, ${BUYERS} buyers, from ${CALM} to ${RATE} presses a second`);
