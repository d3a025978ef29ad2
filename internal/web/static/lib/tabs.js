// What the tabs of a browser share. A tab is on its own where the browser gives neither channels nor locks: locks need TLS,
// and a browser that blocks the storage of a site refuses both.

// channelOf returns the BroadcastChannel of a name; null if there is none.
export function channelOf(name) {
  try {
    return new BroadcastChannel(name);
  } catch {
    return null;
  }
}

// exclusive calls work() when no other tab does so under the same name, and returns its result. Without locks it calls
// alone() instead. An aborted signal ends the waiting with an error.
export async function exclusive(name, work, { signal, alone = work } = {}) {
  let granted = false;
  try {
    return await navigator.locks.request(name, { signal }, () => {
      granted = true;
      return work();
    });
  } catch (err) {
    if (granted || signal?.aborted) throw err;
    return alone();
  }
}
