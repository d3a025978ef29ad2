// The visitor's session. The access token is kept in memory only. The refresh token is in an HttpOnly cookie
// (X-Refresh-Token: cookie). A flag in localStorage says that a session exists, so a first visit makes no failing request.
//
// Tabs share the session: a tab that logs in, renews or logs out sends a message to the others. One tab renews at a time.
// Without Web Locks two tabs may renew at once; the server accepts the replaced cookie once more.

import { asUser, Problem, send, json } from "./api.js";
import { backoff, sleep, topic } from "./events.js";
import { forAll } from "./storage.js";
import { channelOf, exclusive } from "./tabs.js";

const NAME = "seckill.session"; // of the flag, the channel and the lock
const BY_COOKIE = { "X-Refresh-Token": "cookie" };
const EARLY = 60_000; // renewed this long before it expires, so that a purchase does not wait for a renewal
// The server accepts a refresh cookie that it has replaced for another 30 s, and answers with the same successor, so a
// renewal whose answer was lost can be repeated. The attempts of one renewal end within 13 s. A failed renewal is repeated
// after 5 to 10 s, several times within the 30 s.
const TIMEOUT = 4_000;
const ATTEMPTS = 3;
const RETRY_PAUSE = 5_000; // doubled at most

const changes = topic();
const channel = channelOf(NAME);
let user = null;
let lastPhone = "";
let token = "";
let expires = 0; // performance.now()
let renewing = null;
let timer = 0;
let starting = true; // until start has restored the session, or there is none

// hint reports whether a session exists, as far as this browser knows.
const hint = () => forAll.get(NAME) === "1";

function adopt(login, broadcast) {
  const before = user?.id;
  ({ access_token: token, user } = login);
  expires = performance.now() + login.expires_in * 1000;
  scheduleRenewal(Math.max(1000, login.expires_in * 1000 - EARLY));
  if (broadcast) channel?.postMessage({ login });
  if (user.id !== before) changes.emit(user);
}

function scheduleRenewal(pause) {
  clearTimeout(timer);
  timer = setTimeout(() => session.renew().catch(() => {}), pause);
}

function drop(broadcast) {
  clearTimeout(timer);
  token = "";
  if (broadcast) {
    forAll.set(NAME, null);
    channel?.postMessage({ logout: true });
  }
  if (user) {
    lastPhone = user.phone;
    user = null;
    changes.emit(null);
  }
}

channel?.addEventListener("message", ({ data }) => {
  if (data.login) adopt(data.login, false);
  if (data.logout) drop(false);
});

// exchange exchanges the cookie for a new access token.
async function exchange() {
  for (let attempt = 1; ; attempt++) {
    try {
      // keepalive: the answer sets the next cookie even if the page is being left.
      return await json(await send("POST", "/auth/refresh", { headers: BY_COOKIE, keepalive: true, timeout: TIMEOUT }));
    } catch (problem) {
      if (problem.code !== "network" || attempt === ATTEMPTS) throw problem;
      await sleep(backoff(attempt, 100, 500));
    }
  }
}

async function renew() {
  const stale = token;
  try {
    await exclusive(NAME, async () => {
      if (token && token !== stale) return; // another tab has renewed it
      const login = await exchange();
      if (token !== stale) return; // a login has replaced the session meanwhile
      forAll.set(NAME, "1");
      adopt(login, true);
    });
  } catch (problem) {
    if (token !== stale) return; // the failure concerns a session that was replaced
    if (problem.code === "unauthenticated") drop(true);
    else if (token) scheduleRenewal(Math.max(problem.retryAfter, RETRY_PAUSE * (1 + Math.random())));
    throw problem;
  }
}

export const session = {
  user: () => user,
  // lastPhone returns the phone number of the session that ended last on this page; "" if there was none.
  lastPhone: () => lastPhone,
  // may reports whether the visitor's role has a permission. The server checks it in any case.
  may: (permission) => user?.permissions?.includes(permission) ?? false,
  // on subscribes to logins and logouts; the listener receives the new user, or null.
  on: changes.on,

  // start restores the session of the cookie, if one is expected. It retries until the server answers; failed() receives the
  // Problems of attempts that are repeated.
  async start(failed = () => {}) {
    let failures = 0;
    for (; hint() && !token; failures++) {
      try {
        await session.renew();
      } catch (problem) {
        if (hint()) failed(problem);
        await sleep(Math.max(problem.retryAfter, backoff(failures, 500, 10_000)));
      }
    }
    starting = false;
    if (failures > 0 && !user) changes.emit(null); // the expected session is over
  },

  // pending reports whether a session is expected that start has not restored yet.
  pending: () => starting && !token && hint(),

  // token returns a valid access token. Problems: "unauthenticated", "network" and those of POST /auth/refresh.
  async token() {
    if (!token && !hint()) throw new Problem({ code: "unauthenticated", status: 401 });
    if (!token || performance.now() > expires) await session.renew();
    return token;
  },

  // renew requests a new access token. Concurrent calls share one request.
  renew() {
    renewing ??= renew().finally(() => (renewing = null));
    return renewing;
  },

  // sendCode has a login code sent to the phone. It returns the server's answer, and the code if the server is a demo,
  // else "". A cookie holds the login_id for a login after a reload.
  async sendCode(phone) {
    const response = await send("POST", "/auth/code", { body: { phone }, headers: BY_COOKIE });
    return { ...(await json(response)), demo: response.headers.get("X-Demo-Code") ?? "" };
  },

  // login logs in with a login code and, if given, the password of the visitor's authenticator app. loginID is that of
  // sendCode, or undefined for the one in the cookie. Problem of its own: "totp_required" if the password is missing or
  // wrong.
  async login(phone, code, loginID, totp) {
    await exclusive(NAME, async () => {
      const body = { phone, code, login_id: loginID, ...(totp && { totp }) };
      const login = await json(await send("POST", "/auth/login", { body, headers: BY_COOKIE }));
      forAll.set(NAME, "1");
      adopt(login, true);
    });
  },

  // logout ends the session on the server, or all sessions of the user `everywhere`. If the server cannot be reached, they
  // stay.
  async logout({ everywhere = false } = {}) {
    try {
      await asUser("POST", everywhere ? "/auth/logout-all" : "/auth/logout", { headers: BY_COOKIE });
    } catch (problem) {
      if (problem.code !== "unauthenticated") throw problem;
    }
    drop(true);
  },

  // erase deletes the account on the server and ends the session in this browser.
  async erase() {
    await asUser("DELETE", "/me", { headers: BY_COOKIE });
    drop(true);
  },

  // expired ends the session in this browser if the token that the server rejected is the current one.
  expired(rejected) {
    if (rejected === token) drop(true);
  },
};
