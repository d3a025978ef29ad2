// Who the visitor is. The access token is in memory only. The refresh token is in a cookie that no script can read
// (X-Refresh-Token: cookie); what a script may know is that there is one, or every first visit would begin with an error.
//
// Tabs share the session: one that logs in, renews or logs out tells the others. One of them renews at a time; should
// two do it all the same (no Web Locks without TLS), the server is patient with a cookie that it has just replaced.

import { asUser, Problem, send, json } from "./api.js";
import { backoff, sleep, topic } from "./events.js";

const HINT = "seckill.session";
const BY_COOKIE = { "X-Refresh-Token": "cookie" };
const EARLY = 60_000; // renewed before the end, so that no purchase has to wait for it
// The server takes a cookie that it has replaced for some 10 s more: an answer that is lost has to be asked for again in
// that time.
const PATIENCE = 4_000;
const TRIES = 3;
const RETRY = 5_000; // after a renewal that failed

const changes = topic();
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("seckill.session") : null;
let user = null;
let token = "";
let until = 0; // by performance.now()
let renewing = null;
let timer = 0;

function hint(value) {
  try {
    if (value === undefined) return localStorage.getItem(HINT) === "1";
    if (value) localStorage.setItem(HINT, "1");
    else localStorage.removeItem(HINT);
  } catch {
    // without storage a reload logs out
  }
  return false;
}

function adopt(login, tell) {
  const before = user?.id;
  ({ access_token: token, user } = login);
  until = performance.now() + login.expires_in * 1000;
  arm(Math.max(1000, login.expires_in * 1000 - EARLY));
  if (tell) channel?.postMessage({ login });
  if (user.id !== before) changes.tell(user);
}

function arm(pause) {
  clearTimeout(timer);
  timer = setTimeout(() => session.renew().catch(() => {}), pause);
}

function drop(tell) {
  clearTimeout(timer);
  token = "";
  if (tell) {
    hint(false);
    channel?.postMessage({ logout: true });
  }
  if (user) {
    user = null;
    changes.tell(null);
  }
}

channel?.addEventListener("message", ({ data }) => {
  if (data.login) adopt(data.login, false);
  if (data.logout) drop(false);
});

const alone = (work) => (navigator.locks ? navigator.locks.request("seckill.session", work) : work());

// exchange gets a new access token for the cookie.
async function exchange() {
  for (let tries = 1; ; tries++) {
    try {
      // keepalive: the answer brings the next cookie, also to a page that is being left.
      return await json(await send("POST", "/auth/refresh", { headers: BY_COOKIE, keepalive: true, patience: PATIENCE }));
    } catch (problem) {
      if (problem.code !== "network" || tries === TRIES) throw problem;
      await sleep(backoff(tries, 100, 500));
    }
  }
}

async function renew() {
  const stale = token;
  try {
    await alone(async () => {
      if (token && token !== stale) return; // another tab was quicker
      const login = await exchange();
      if (token !== stale) return; // somebody has logged in meanwhile
      hint(true);
      adopt(login, true);
    });
  } catch (problem) {
    if (token !== stale) return; // what is over is the session before
    if (problem.status === 401) drop(true);
    else if (token) arm(Math.max(problem.retryAfter, RETRY * (1 + Math.random())));
    throw problem;
  }
}

export const session = {
  user: () => user,
  // on calls back when another visitor, or none, is logged in.
  on: changes.on,

  // start takes up the session of the cookie, if there should be one. While the server cannot be asked it tries again.
  async start() {
    for (let failures = 0; hint() && !token; failures++) {
      try {
        await session.renew();
      } catch (problem) {
        await sleep(Math.max(problem.retryAfter, backoff(failures, 500, 10_000)));
      }
    }
  },

  // pending says that there should be a session, which is not taken up yet.
  pending: () => !token && hint(),

  // token is an access token that is good for now. Problems: unauthenticated, network and what the server says.
  async token() {
    if (!token && !hint()) throw new Problem({ code: "unauthenticated", status: 401 });
    if (!token || performance.now() > until) await session.renew();
    return token;
  },

  // renew gets a new access token; all who ask meanwhile wait for the same one.
  renew() {
    renewing ??= renew().finally(() => (renewing = null));
    return renewing;
  },

  // sendCode asks for a login code, and returns it where the server is a demo.
  async sendCode(phone) {
    const response = await send("POST", "/auth/code", { body: { phone } });
    return response.headers.get("X-Demo-Code") ?? "";
  },

  async login(phone, code) {
    await alone(async () => {
      const login = await json(await send("POST", "/auth/login", { body: { phone, code }, headers: BY_COOKIE }));
      hint(true);
      adopt(login, true);
    });
  },

  // logout ends the session on the server. If that cannot be reached, nothing has happened.
  async logout() {
    try {
      await asUser("POST", "/auth/logout", { headers: BY_COOKIE });
    } catch (problem) {
      if (problem.code !== "unauthenticated") throw problem;
    }
    drop(true);
  },

  // over is for who hears that the session of a token has ended.
  over(of) {
    if (of === token) drop(true);
  },
};
