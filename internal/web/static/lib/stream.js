// Server-sent events over fetch: EventSource cannot send an access token in a header.

import { asUser, Problem } from "./api.js";
import { backoff, sleep } from "./events.js";

const SILENCE = 40_000; // the server says something each 15 s
const FIRST = 500;
const MOST = 15_000;
const SPREAD = 3_000; // a server that goes away breaks all its streams at once: they do not come back at once

// follow calls onEvent({event, id, data}) for each event until the server says that there will be no more (204, 404),
// `done(event)` says so, or the signal ends it. A connection that breaks, or stays silent, is opened again, after what
// was seen last. onProblem is told what the server says instead of events, and null when it sends events again.
export async function follow(path, { signal, lastID = "", onEvent, onProblem, done }) {
  for (let failures = 0; !signal.aborted; failures++) {
    let told = 0;
    const cut = new AbortController();
    const stop = () => cut.abort();
    signal.addEventListener("abort", stop);
    try {
      const headers = { Accept: "text/event-stream", ...(lastID && { "Last-Event-ID": lastID }) };
      const response = await asUser("GET", path, { headers, signal: cut.signal, stream: true });
      if (response.status === 204) return;
      onProblem?.(null);
      for await (const event of events(response.body, stop)) {
        failures = 0; // it works: the next pause is a short one
        if (event.id) lastID = event.id;
        if (event.data !== "") onEvent(event);
        if (done?.(event)) return;
      }
    } catch (err) {
      if (signal.aborted) return;
      if (!(err instanceof Problem)) throw err;
      onProblem?.(err);
      if (err.status === 404 || err.status === 401) return;
      told = err.retryAfter;
    } finally {
      signal.removeEventListener("abort", stop);
      cut.abort();
    }
    await nextTry(told + (failures === 0 ? Math.random() * SPREAD : backoff(failures, FIRST, MOST)), signal);
  }
}

// nextTry waits, but not longer than until the network is back.
async function nextTry(pause, signal) {
  const wake = new AbortController();
  const up = () => wake.abort();
  addEventListener("online", up, { once: true });
  signal.addEventListener("abort", up, { once: true });
  await sleep(pause, wake.signal);
  removeEventListener("online", up);
  signal.removeEventListener("abort", up);
}

// events reads a body as https://html.spec.whatwg.org/multipage/server-sent-events.html says, as far as our server uses
// it. A connection that ends without saying so ends the sequence; `stop` cuts one that has fallen silent.
async function* events(body, stop) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let timer = setTimeout(stop, SILENCE);
  let rest = "";
  let event = { event: "message", id: "", data: "" };
  try {
    for (;;) {
      const { value, done } = await reader.read().catch(() => ({ done: true }));
      if (done) return;
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
