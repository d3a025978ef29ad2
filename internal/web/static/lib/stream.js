// Server-sent events over fetch: EventSource cannot send an access token in a header.

import { asUser, Problem } from "./api.js";
import { backoff, sleep } from "./events.js";

const SILENCE = 20_000; // ms without data; the server sends a comment at once and every 15 s
const MOST_SILENT = 2; // streams in a row that end so: one is a phone that slept, two are a proxy that passes only the beginning on
const MUTE = 8_000; // ms until the first data; later than that, a proxy holds the answer back until its end
const MOST_REFUSED = 3; // answers of a proxy in a row that the server is away: more than while it restarts
const HELD = 600_000; // ms for which callers then use no stream
const REFUSED = 60_000; // the same if it may have been an outage
const FIRST = 500;
const MOST = 15_000;
const SPREAD = 3_000; // a server that stops breaks all its streams at once: the clients return spread over this time

// follow calls onEvent({event, id, data}) for each event of a stream. It returns when the server ends the stream (204,
// 404), rejects the session (401), when `done(event)` is true, or when the signal is aborted. A broken or silent
// connection is reopened with the Last-Event-ID, after pauses of at most `most` ms. A stream whose access token has expired
// ends with the event "reauth" and is reopened at once. onProblem receives the Problem of a failed request, and null when
// events arrive again. If a proxy refuses streams or holds their data back, follow returns the time in ms for which the caller
// has to poll instead, otherwise 0.
export async function follow(path, { signal, headers: own, lastID = "", most = MOST, onEvent, onProblem, done }) {
  let silent = 0;
  let refused = 0;
  for (let failures = 0; !signal.aborted; failures++) {
    let retryAfter = 0;
    let renew = false;
    let heard = false;
    const began = performance.now();
    const cut = new AbortController();
    const stop = () => cut.abort();
    signal.addEventListener("abort", stop);
    try {
      const headers = { ...own, Accept: "text/event-stream", ...(lastID && { "Last-Event-ID": lastID }) };
      const response = await asUser("GET", path, { headers, signal: cut.signal, stream: true, timeout: MUTE });
      if (response.status === 204) return 0;
      if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return HELD; // a page of a proxy
      refused = 0;
      const hear = () => {
        if (!heard) onProblem?.(null);
        heard = true;
        if (performance.now() - began > MUTE) silent = 0;
      };
      const fallSilent = () => {
        silent++;
        stop();
      };
      for await (const event of events(response.body, hear, fallSilent)) {
        failures = 0; // the next pause is short again
        if ((renew = event.event === "reauth")) break;
        if (event.id) lastID = event.id;
        if (event.data !== "") onEvent(event);
        if (done?.(event)) return 0;
      }
    } catch (err) {
      if (signal.aborted) return 0;
      if (!(err instanceof Problem)) throw err;
      if (err.foreign && err.status >= 400 && err.status < 500 && err.status !== 429) return HELD;
      if (err.foreign && err.status >= 500 && ++refused === MOST_REFUSED) return REFUSED;
      onProblem?.(err);
      if (err.status === 404 || err.status === 401) return 0;
      heard ||= err.status !== 0; // an answer, though an error
      retryAfter = err.retryAfter;
    } finally {
      signal.removeEventListener("abort", stop);
      cut.abort();
    }
    if (!heard && !signal.aborted && performance.now() - began >= MUTE) return HELD;
    if (silent === MOST_SILENT) return HELD;
    if (!renew) await sleep(retryAfter + (failures === 0 ? Math.random() * SPREAD : backoff(failures, FIRST, most)), signal);
  }
  return 0;
}

// events parses a body by https://html.spec.whatwg.org/multipage/server-sent-events.html, as far as our server uses it.
// A broken connection ends the sequence. `hear` is called with all data, and `stop` after MUTE without any, or SILENCE
// without more: it has to abort the request.
async function* events(body, hear, stop) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let timer = setTimeout(stop, MUTE);
  let rest = "";
  let event = { event: "message", id: "", data: "" };
  try {
    for (;;) {
      const { value, done } = await reader.read().catch(() => ({ done: true }));
      if (done) return;
      hear();
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE);
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (line === "") {
          yield event;
          event = { event: "message", id: "", data: "" };
        } else if (!line.startsWith(":")) {
          const colon = line.indexOf(": ");
          event[line.slice(0, colon)] = line.slice(colon + 2);
        }
      }
    }
  } finally {
    clearTimeout(timer);
    reader.cancel().catch(() => {});
  }
}
