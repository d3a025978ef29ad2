// Client functions for the API. IDs stay strings, because JavaScript numbers are exact only up to 2^53.
import http from 'k6/http';
import { sleep } from 'k6';
import { Rate } from 'k6/metrics';

export const BASE_URL = (__ENV.BASE_URL || 'http://127.0.0.1:8080').replace(/\/$/, '');
const API = BASE_URL + '/api/v1';

// PREFER_WAIT is the time in seconds for which an order request in lane queue waits for its outcome. With 0 the server
// answers 202 at once and the test polls the order. The other lanes ignore it.
const PREFER_WAIT = Number(__ENV.PREFER_WAIT || 3);

// ENTRY is the entry mode of the sales. With "pass" each order request is preceded by one for a pass. The sales demand no
// challenge, because these scripts solve none.
const ENTRY = __ENV.ENTRY || 'open';

const brokenVisits = new Rate('broken_visits');

// visit returns an iteration that counts exceptions of f in a metric with a threshold. k6 alone logs an exception and
// the run passes.
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

// Statuses that are correct for an order during a sale. Any other status is a failed request.
const placeAnswers = http.expectedStatuses(201, 202, 409, 429, 503);

// params returns the parameters of a request. name groups the metrics, because paths contain IDs.
function params(name, token, more) {
  const headers = { 'Content-Type': 'application/json' };
  if (token) {
    headers.Authorization = `Bearer ${token}`;
  }
  return Object.assign({ headers, tags: { name }, timeout: '15s' }, more);
}

// expecting returns parameters with the statuses that are correct for a request, if they are not only 2xx and 3xx.
export function expecting(...statuses) {
  return { responseCallback: http.expectedStatuses(...statuses) };
}

export function sendCode(phone) {
  return http.post(`${API}/auth/code`, JSON.stringify({ phone }), params('POST /auth/code'));
}

// login logs in with the answer of sendCode.
export function login(phone, sent) {
  const body = { phone, code: sent.headers['X-Demo-Code'], login_id: sent.json('login_id') };
  return http.post(`${API}/auth/login`, JSON.stringify(body), params('POST /auth/login'));
}

// adminToken returns ADMIN_TOKEN, or logs ADMIN_PHONE in with the login code of the demo mode.
export function adminToken() {
  if (__ENV.ADMIN_TOKEN) {
    return __ENV.ADMIN_TOKEN;
  }
  const phone = __ENV.ADMIN_PHONE || '13800000000';
  const sent = sendCode(phone);
  if (!sent.headers['X-Demo-Code']) {
    throw new Error(`no login code for ${phone}: set ADMIN_TOKEN, or use a server in demo mode`);
  }
  const res = login(phone, sent);
  if (res.status !== 200) {
    throw new Error(`log in as ${phone}: ${res.status} ${res.body}`);
  }
  return res.json('access_token');
}

// createSale publishes a sale that begins at beginAt and lasts `open` seconds. Unpaid orders are not limited, because the
// scripts cancel, reorder and do not pay. It returns the voucher ID.
export function createSale(token, title, stock, beginAt, open = 3600) {
  const body = {
    shop_id: '1', title, pay_value: 100, actual_value: 200, stock, force: true,
    unpaid_limit: 0, entry: { mode: ENTRY }, begin_at: beginAt.toISOString(), end_at: new Date(beginAt.getTime() + open * 1000).toISOString(),
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

// placeRequest returns an order request for http.batch.
export function placeRequest(token, voucherID) {
  const p = params('POST /vouchers/{id}/orders', token, { responseCallback: placeAnswers });
  if (PREFER_WAIT > 0) {
    p.headers.Prefer = `wait=${PREFER_WAIT}`;
  }
  const pass = ENTRY === 'pass' && enter(token, voucherID);
  if (pass) {
    p.headers['X-Entry-Pass'] = pass;
  }
  return { method: 'POST', url: `${API}/vouchers/${voucherID}/orders`, body: null, params: p };
}

// enter returns a pass, or undefined while the sale admits no buyer. The order request is then refused for the same reason.
function enter(token, voucherID) {
  const p = params('POST /vouchers/{id}/entry', token, { responseCallback: http.expectedStatuses(200, 409, 429, 503) });
  return bodyOf(http.post(`${API}/vouchers/${voucherID}/entry`, null, p)).pass;
}

export function place(token, voucherID, more) {
  const r = placeRequest(token, voucherID);
  return http.post(r.url, r.body, Object.assign(r.params, more));
}

export function showOrder(token, id, more) {
  return http.get(`${API}/orders/${id}`, params('GET /orders/{id}', token, more));
}

// ordersToPayRequest returns a request for http.batch that lists the buyer's newest unpaid orders, at most 100.
export function ordersToPayRequest(token) {
  return {
    method: 'GET', url: `${API}/orders?status=pending_payment&limit=100`, body: null, params: params('GET /orders', token),
  };
}

export function cancel(token, id, more) {
  return http.post(`${API}/orders/${id}/cancel`, null, params('POST /orders/{id}/cancel', token, more));
}

// outcome reduces the answer to an order request to {code, orderID, retryAfter, took}. code is "ok" for a committed
// order, or the reason of the failure. orderID is the order, or the one named by a duplicate_order. retryAfter is in
// seconds. took is the time until the decision in ms. After a 202, outcome polls the order until it is decided.
export function outcome(res, token) {
  if (res.status === 202) {
    const answered = Date.now();
    const o = pollOrder(token, res.json('order_id'));
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

// bodyOf returns the JSON body, or an empty object if there is none, as in the answer of a proxy.
function bodyOf(res) {
  try {
    return res.json() || {};
  } catch {
    return {};
  }
}

// pollOrder polls a queued order for at most 60 s.
function pollOrder(token, orderID) {
  for (let tries = 0; tries < 240; tries++) {
    const res = showOrder(token, orderID, expecting(200, 404));
    if (res.status === 404) {
      return { code: 'lost', orderID }; // Redis lost its data, and the order with it
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
