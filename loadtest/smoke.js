// A few buyers log in, browse, order, cancel and reorder, repeatedly. One wrong answer fails the run.
//
//   BASE_URL     the server, in demo mode (http://127.0.0.1:8080)
//   ADMIN_PHONE  an admin of that server (13800000000), or ADMIN_TOKEN
//   SMOKE_VUS, SMOKE_DURATION (3, 8s), P95_MS (5000, the maximum of the 95th percentile of the answer time)
import { check, group } from 'k6';
import exec from 'k6/execution';
import {
  adminToken, cancel, createSale, expecting, listVouchers, login, outcome, place, sendCode, showOrder, showVoucher, visit,
} from './api.js';

const VUS = Number(__ENV.SMOKE_VUS || 3);

export const options = {
  scenarios: {
    smoke: { executor: 'constant-vus', vus: VUS, duration: __ENV.SMOKE_DURATION || '8s', gracefulStop: '30s' },
  },
  thresholds: {
    checks: ['rate==1'],
    broken_visits: ['rate==0'],
    http_req_failed: ['rate==0'], // expected refusals do not count: see expecting
    http_req_duration: [`p(95)<${Number(__ENV.P95_MS || 5000)}`],
    iterations: ['count>0'],
  },
};

export function setup() {
  const stock = 1000000;
  const voucherID = createSale(adminToken(), 'Smoke test', stock, new Date(Date.now() - 60e3));
  return { voucherID, stock, firstPhone: Date.now() % 1e8 };
}

// phoneOf returns a new phone number for each iteration, even if the test is run again soon.
function phoneOf(data) {
  const n = (data.firstPhone + exec.scenario.iterationInTest) % 1e8;
  return `139${String(n).padStart(8, '0')}`;
}

export default visit((data) => {
  const token = logIn(phoneOf(data));
  if (!token) {
    return;
  }
  browse(data);
  const order = buy(token, data.voucherID);
  if (order) {
    cancelAndReorder(token, data.voucherID, order);
  }
});

function logIn(phone) {
  return group('log in', () => {
    const sent = sendCode(phone);
    if (!check(sent, { 'code: 200 with the demo code': (r) => r.status === 200 && /^\d+$/.test(r.headers['X-Demo-Code']) })) {
      return null;
    }
    const res = login(phone, sent);
    return check(res, { 'login: 200 with a token': (r) => r.status === 200 && r.json('access_token') !== undefined })
      ? res.json('access_token') : null;
  });
}

function browse(data) {
  group('browse', () => {
    check(listVouchers('status=on_sale&limit=100'), {
      'list: 200 with the sale': (r) => r.status === 200 && r.json('items').some((v) => v.id === data.voucherID),
    });
    check(showVoucher(data.voucherID), {
      'voucher: 200, stock within bounds': (r) => r.status === 200 && r.json('stock') >= 0 && r.json('stock') <= data.stock,
    });
  });
}

function buy(token, voucherID) {
  return group('buy', () => {
    const res = place(token, voucherID);
    const first = outcome(res, token);
    if (!check(res, {
      'order: 201 or 202': (r) => r.status === 201 || r.status === 202,
      'order: committed': () => first.code === 'ok',
      'order: the id is a string of digits': () => /^\d+$/.test(first.orderID),
      'order: Location names it': (r) => String(r.headers.Location).endsWith(`/orders/${first.orderID}`),
    })) {
      return null;
    }
    check(place(token, voucherID, expecting(409)), {
      'second order: 409 duplicate_order, naming the first': (r) =>
        r.status === 409 && r.json('code') === 'duplicate_order' && r.json('order_id') === first.orderID,
    });
    check(showOrder(token, first.orderID), {
      'order: 200, pending payment': (r) => r.status === 200 && r.json('id') === first.orderID
        && r.json('voucher_id') === voucherID && r.json('status') === 'pending_payment',
    });
    check(showOrder('', first.orderID, expecting(401)), {
      'order without a token: 401': (r) => r.status === 401 && r.json('code') === 'unauthenticated',
    });
    return first.orderID;
  });
}

function cancelAndReorder(token, voucherID, orderID) {
  group('cancel and reorder', () => {
    check(cancel(token, orderID), {
      'cancel: 200, cancelled': (r) => r.status === 200 && r.json('status') === 'cancelled',
    });
    check(cancel(token, orderID, expecting(409)), {
      'second cancel: 409 invalid_state': (r) => r.status === 409 && r.json('code') === 'invalid_state',
    });
    const again = outcome(place(token, voucherID), token);
    check(again, { 'buy again: a new order': (o) => o.code === 'ok' && o.orderID !== orderID });
  });
}
