// The way to the server: tokens, time-outs, errors. Every failure is a Problem with a code, also one that never reached
// the server.

import { observeDate } from "./clock.js";
import { session } from "./session.js";

const BASE = "/api/v1";
const PATIENCE = 10_000; // the server answers within 5 s, whatever is broken

// Problem is an answer that says no (RFC 9457). `code` is one of the API's, or "network" where there was no answer;
// `errors` are {field, detail} of a request that is not valid.
export class Problem extends Error {
  constructor(fields) {
    super(`${fields.code}: ${fields.detail ?? fields.title ?? ""}`);
    Object.assign(this, { status: 0, retryAfter: 0, requestId: "", orderId: "", errors: [] }, fields);
  }
}

// Codes of answers that are not from our server but from a proxy before it, which knows no codes.
const codeOf = (status) => (status === 429 ? "rate_limited" : status >= 502 && status <= 504 ? "unavailable" : "internal");

async function problemOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // not ours
  }
  return new Problem({
    code: body.code ?? codeOf(response.status), title: body.title, detail: body.detail, status: response.status,
    requestId: body.request_id ?? response.headers.get("X-Request-Id") ?? "", orderId: body.order_id ?? "", errors: body.errors ?? [],
    retryAfter: 1000 * (Number(response.headers.get("Retry-After")) || 0),
  });
}

// send asks once. Options: body (JSON), key (Idempotency-Key), token, headers, signal, and patience in milliseconds for
// the whole answer; of a `stream` for its beginning. It returns the Response of a success, which is here as a whole,
// unless it is a stream. Its `got` is when it began, by performance.now().
export async function send(method, path, { body, key, token, headers, signal, patience = PATIENCE, keepalive, stream } = {}) {
  const abort = new AbortController();
  const stop = () => abort.abort();
  signal?.addEventListener("abort", stop);
  if (signal?.aborted) stop();
  const timer = setTimeout(stop, patience);
  const all = new Headers(headers);
  if (token) all.set("Authorization", `Bearer ${token}`);
  if (key) all.set("Idempotency-Key", key);
  if (body !== undefined) all.set("Content-Type", "application/json");
  const sent = performance.now();
  try {
    const response = await fetch(BASE + path, {
      method, headers: all, body: body === undefined ? undefined : JSON.stringify(body), signal: abort.signal,
      cache: "no-store", redirect: "error", keepalive,
    });
    const got = performance.now();
    observeDate(response.headers.get("Date"), sent, got);
    if (!response.ok) throw await problemOf(response);
    if (stream) return response;
    const { status, headers } = response;
    return Object.assign(new Response(status === 204 ? null : await response.arrayBuffer(), { status, headers }), { got });
  } catch (err) {
    if (err instanceof Problem) throw err;
    throw new Problem({ code: "network", detail: String(err) });
  } finally {
    clearTimeout(timer);
  }
}

// asUser is send with the visitor's access token; one that has expired is renewed once. Without a session the Problem
// is "unauthenticated". Nothing is sent in the name of anybody but the user `as`, if that is given: the session may have
// become another's while a token was waited for. Then the Problem is "other_user".
export async function asUser(method, path, { as, ...options } = {}) {
  let token = "";
  const ask = async () => {
    token = await session.token();
    if (as && session.user()?.id !== as) throw new Problem({ code: "other_user" });
    return send(method, path, { ...options, token });
  };
  try {
    return await ask();
  } catch (problem) {
    if (problem.code === "token_expired") {
      await session.renew();
      return ask();
    }
    if (problem.code === "unauthenticated") session.over(token);
    throw problem;
  }
}

// json reads the body of an answer. One that cannot be read is a Problem, too.
export async function json(response) {
  try {
    return response.status === 204 ? null : await response.json();
  } catch (err) {
    throw new Problem({ code: "network", detail: String(err) });
  }
}

export const get = async (path, options) => json(await send("GET", path, options));
export const getMine = async (path, options) => json(await asUser("GET", path, options));
export const postMine = async (path, options) => json(await asUser("POST", path, options));
export const patchMine = async (path, options) => json(await asUser("PATCH", path, options));
export const deleteMine = async (path, options) => json(await asUser("DELETE", path, options));

// newKey makes the name of an intent: a purchase that is sent again under the same key is the same purchase.
// (crypto.randomUUID is not there on a page that came without TLS from another machine.)
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
