// The API client: tokens, timeouts, errors. Every failure is thrown as a Problem with a code, even one without an answer
// from the server.

import { observe } from "./clock.js";
import { session } from "./session.js";

export const BASE = "/api/v1";
const TIMEOUT = 10_000; // the server answers within 5 s, even if a dependency is down

// Problem is an error response of the API (RFC 9457). `code` is one of the API's codes, or "network" if there was no
// answer. `errors` lists the invalid fields of a request as {field, detail}; `challenge` is the one of "challenge_required",
// `shopName` the shop of an order that a redeemer of other shops may not see. `foreign` means that a proxy answered. Its 404 or
// 401 says nothing about an order or a session, so pages decide by the code, which codeOf derives then.
export class Problem extends Error {
  constructor(fields) {
    super(`${fields.code}: ${fields.detail ?? fields.title ?? ""}`);
    Object.assign(this, { status: 0, retryAfter: 0, requestId: "", orderId: "", errors: [] }, fields);
  }
}

// codeOf derives the code of an error response from its status, for responses of a proxy in front of the server. The server
// itself never answers 413.
function codeOf(status) {
  if (status === 413) return "too_large";
  if (status === 429) return "rate_limited";
  return status >= 502 && status <= 504 ? "unavailable" : "internal";
}

// problemOf returns the Problem of an error response.
async function problemOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // the body is not JSON: a proxy answered
  }
  return new Problem({
    code: body.code ?? codeOf(response.status), title: body.title, detail: body.detail, status: response.status,
    requestId: body.request_id ?? response.headers.get("X-Request-Id") ?? "", orderId: body.order_id ?? "", errors: body.errors ?? [],
    foreign: body.code === undefined, challenge: body.challenge, shopName: body.shop_name,
    retryAfter: 1000 * (Number(response.headers.get("Retry-After")) || 0),
  });
}

// send makes one request and returns the Response of a success, with its body already read unless `stream` is set.
// Options: body (FormData, or sent as JSON), key (Idempotency-Key), token, headers, signal, cache (of fetch), and timeout in ms,
// which bounds the whole answer, or the arrival of its headers if `stream` is set.
export async function send(method, path, { body, key, token, headers, signal, timeout = TIMEOUT, keepalive, stream, cache = "no-store" } = {}) {
  const abort = new AbortController();
  const stop = () => abort.abort();
  signal?.addEventListener("abort", stop);
  if (signal?.aborted) stop();
  const timer = setTimeout(stop, timeout);
  const all = new Headers(headers);
  if (token) all.set("Authorization", `Bearer ${token}`);
  if (key) all.set("Idempotency-Key", key);
  const form = body instanceof FormData;
  if (body !== undefined && !form) all.set("Content-Type", "application/json");
  const sent = performance.now();
  try {
    const response = await fetch(BASE + path, {
      method, headers: all, body: form ? body : JSON.stringify(body), signal: abort.signal,
      cache, redirect: "error", keepalive,
    });
    observe(response.headers, sent, performance.now());
    if (!response.ok) throw await problemOf(response);
    if (stream) return response;
    const { status, headers } = response;
    return new Response(status === 204 ? null : await response.arrayBuffer(), { status, headers });
  } catch (err) {
    if (err instanceof Problem) throw err;
    throw new Problem({ code: "network", detail: String(err) });
  } finally {
    clearTimeout(timer);
  }
}

// asUser is send with the visitor's access token. An expired token is renewed once. Problems of its own:
// "unauthenticated" without a session, and "other_user" if `as` is given and the session belongs to another user by the
// time the token is available. In the latter case nothing is sent.
export async function asUser(method, path, { as, ...options } = {}) {
  let token = "";
  const attempt = async () => {
    token = await session.token();
    if (as && session.user()?.id !== as) throw new Problem({ code: "other_user" });
    return send(method, path, { ...options, token });
  };
  try {
    return await attempt();
  } catch (problem) {
    if (problem.code === "token_expired") {
      await session.renew();
      return attempt();
    }
    if (problem.code === "unauthenticated") session.expired(token);
    throw problem;
  }
}

// json returns the body of a response, or null for 204. An unreadable body is the Problem "network".
export async function json(response) {
  try {
    return response.status === 204 ? null : await response.json();
  } catch (err) {
    throw new Problem({ code: "network", detail: String(err) });
  }
}

// orNull resolves to null in place of a Problem.
export const orNull = (answer) => answer.catch((problem) => {
  if (!problem.code) throw problem;
  return null;
});

export const get = async (path, options) => json(await send("GET", path, options));
export const getMine = async (path, options) => json(await asUser("GET", path, options));
export const postMine = async (path, options) => json(await asUser("POST", path, options));
export const patchMine = async (path, options) => json(await asUser("PATCH", path, options));
export const deleteMine = async (path, options) => json(await asUser("DELETE", path, options));

// newKey returns a random Idempotency-Key. Repeating a request under the same key never repeats its effect.
// (crypto.randomUUID does not exist on pages that are served without TLS from another host.)
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
