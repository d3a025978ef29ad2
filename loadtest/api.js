// The API as the load tests use it. Ids stay strings: JavaScript's numbers end at 2^53.
import http from 'k6/http';
import { sleep } from 'k6';
import { Rate } from 'k6/metrics';

export const BASE_URL = (__ENV.BASE_URL || 'http://127.0.0.1:8080').replace(/\/$/, '');
const API = BASE_URL + '/api/v1';

// In the lane queue the server may answer 202 at once. PREFER_WAIT is for how many seconds a buyer would rather wait for
// the outcome, and 0 has him look after his order. The other lanes take no notice.
const PREFER_WAIT = Number(__ENV.PREFER_WAIT || 3);

const brokenVisits = new Rate('broken_visits');

// visit makes an iteration of f that cannot fail without a word: k6 itself logs an exception and passes the run.
export function visit(f) {
  return (data) => {
    let broken = true;
    try {
      f(data);
      broken = false;
    } finally {
      brokenVisits.add(broken);
    }
  };
}

// Answers that an honest server gives to a buyer in the middle of a sale. Everything else is a failed request.
const placeAnswers = http.expectedStatuses(201, 202, 409, 429, 503);

// params makes a request's parameters. name groups the metrics: a path holds ids, of which there is no end.
function params(name, token, more) {
  const headers = { 'Content-Type': 'application/json' };
  if (token) {
    headers.Authorization = `Bearer ${token}`;
  }
  return Object.assign({ headers, tags: { name }, timeout: '15s' }, more);
}

// expecting marks statuses other than 2xx and 3xx as the ones that a request is meant to get.
export function expecting(...statuses) {
  return { responseCallback: http.expectedStatuses(...statuses) };
}

export function sendCode(phone) {
  return http.post(`${API}/auth/code`, JSON.stringify({ phone }), params('POST /auth/code'));
}

export function login(phone, code) {
  return http.post(`${API}/auth/login`, JSON.stringify({ phone, code }), params('POST /auth/login'));
}

// adminToken is the one that was given (ADMIN_TOKEN), or comes from the demo mode's login of ADMIN_PHONE.
export function adminToken() {
  if (__ENV.ADMIN_TOKEN) {
    return __ENV.ADMIN_TOKEN;
  }
  const phone = __ENV.ADMIN_PHONE || '13800000000';
  const code = sendCode(phone).headers['X-Demo-Code'];
  if (!code) {
    throw new Error(`no login code for ${phone}: give ADMIN_TOKEN, or a server in demo mode`);
  }
  const res = login(phone, code);
  if (res.status !== 200) {
    throw new Error(`log in as ${phone}: ${res.status} ${res.body}`);
  }
  return res.json('access_token');
}

// createSale publishes a sale whose window begins at beginAt and is open for so many seconds, and returns its id.
export function createSale(token, title, stock, beginAt, open = 3600) {
  const body = {
    shop_id: '1', title, pay_value: 100, actual_value: 200, stock,
    begin_at: beginAt.toISOString(), end_at: new Date(beginAt.getTime() + open * 1000).toISOString(),
  };
  const res = http.post(`${API}/admin/vouchers`, JSON.stringify(body), params('POST /admin/vouchers', token));
  if (res.status !== 201) {
    throw new Error(`create the sale: ${res.status} ${res.body}`);
  }
  return res.json('id');
}

export function listVouchers(query) {
  return http.get(`${API}/vouchers?${query}`, params('GET /vouchers'));
}

export function showVoucher(id) {
  return http.get(`${API}/vouchers/${id}`, params('GET /vouchers/{id}'));
}

// placeRequest is an order in the form that http.batch takes.
export function placeRequest(token, voucherID) {
  const p = params('POST /vouchers/{id}/orders', token, { responseCallback: placeAnswers });
  if (PREFER_WAIT > 0) {
    p.headers.Prefer = `wait=${PREFER_WAIT}`;
  }
  return { method: 'POST', url: `${API}/vouchers/${voucherID}/orders`, body: null, params: p };
}

export function place(token, voucherID, more) {
  const r = placeRequest(token, voucherID);
  return http.post(r.url, r.body, Object.assign(r.params, more));
}

export function showOrder(token, id, more) {
  return http.get(`${API}/orders/${id}`, params('GET /orders/{id}', token, more));
}

// ordersToPayRequest lists the buyer's newest orders that he has neither paid nor cancelled, in the form that http.batch takes.
export function ordersToPayRequest(token) {
  return {
    method: 'GET', url: `${API}/orders?status=pending_payment&limit=100`, body: null, params: params('GET /orders', token),
  };
}

export function cancel(token, id, more) {
  return http.post(`${API}/orders/${id}/cancel`, null, params('POST /orders/{id}/cancel', token, more));
}

// outcome reduces the answer to a purchase to {code, orderID, retryAfter, took}. code is "ok" once the order is committed,
// and otherwise why it is not; orderID is the order, or the one that a duplicate_order names; retryAfter is in seconds,
// and took, in milliseconds, ends with the decision. A 202 is followed until then, as it promises that there will be one.
export function outcome(res, token) {
  if (res.status === 202) {
    const answered = Date.now();
    const o = settle(token, res.json('order_id'));
    return Object.assign(o, { retryAfter: 1, took: res.timings.duration + Date.now() - answered });
  }
  const body = bodyOf(res);
  const took = res.timings.duration;
  if (res.status === 201) {
    return { code: 'ok', orderID: body.id, retryAfter: 1, took };
  }
  const code = res.status === 0 ? 'no_answer' : body.code || `http_${res.status}`;
  return { code, orderID: body.order_id, retryAfter: Number(res.headers['Retry-After']) || 1, took };
}

// bodyOf is empty where there is no JSON: a proxy's answer, not the server's.
function bodyOf(res) {
  try {
    return res.json() || {};
  } catch {
    return {};
  }
}

function settle(token, orderID) {
  for (let tries = 0; tries < 240; tries++) {
    const res = showOrder(token, orderID, expecting(200, 404));
    if (res.status === 404) {
      return { code: 'lost', orderID }; // Redis lost its data: such an order may be gone
    }
    const status = res.status === 200 ? res.json('status') : 'queued';
    if (status === 'failed') {
      return { code: res.json('reason') || 'failed', orderID };
    }
    if (status !== 'queued') {
      return { code: 'ok', orderID };
    }
    sleep(0.25);
  }
  return { code: 'undecided', orderID };
}
