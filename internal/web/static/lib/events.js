// topic is something that others want to hear of. `on` returns the function that ends it.
export function topic() {
  const listeners = new Set();
  return {
    on(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    tell(...news) {
      for (const listener of [...listeners]) listener(...news);
    },
  };
}

// sleep waits, and ends early (without an error) when the signal says so.
export function sleep(ms, signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
    signal?.addEventListener("abort", done);
  });
}

// backoff is the pause before the n-th repetition (from 0): doubled each time, with half of it left to chance, so that
// ten thousand pages which failed together do not come back together.
export function backoff(n, first, most) {
  const full = Math.min(most, first * 2 ** n);
  return full / 2 + (Math.random() * full) / 2;
}
