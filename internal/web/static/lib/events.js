// Events within the page, and waiting.

// topic creates an event source. on(listener) subscribes and returns the function that unsubscribes; emit calls all
// listeners.
export function topic() {
  const listeners = new Set();
  return {
    on(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    emit(...args) {
      for (const listener of [...listeners]) listener(...args);
    },
  };
}

// sleep resolves after ms milliseconds, or earlier (without an error) when the network is back or the signal is aborted.
export function sleep(ms, signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      removeEventListener("online", done);
      signal?.removeEventListener("abort", done);
      resolve();
    }
    addEventListener("online", done);
    signal?.addEventListener("abort", done);
  });
}

// backoff returns the pause in ms before the n-th retry (from 0): exponential from `first` up to `most`, half of it
// random, so that thousands of pages that failed together do not retry together.
export function backoff(n, first, most) {
  const full = Math.min(most, first * 2 ** n);
  return full / 2 + (Math.random() * full) / 2;
}
