// What the pages keep in the browser. What it refuses, because it blocks the storage of a site or has no room, lasts as long as
// the page.

// storage returns a part of the browser's storage. Values are texts; null is none.
function storage(part) {
  const refused = new Map();
  return {
    get(name) {
      try {
        return refused.get(name) ?? window[part].getItem(name);
      } catch {
        return null;
      }
    },
    set(name, value) {
      refused.delete(name);
      try {
        if (value === null) window[part].removeItem(name);
        else window[part].setItem(name, value);
      } catch {
        if (value !== null) refused.set(name, value);
      }
    },
    names() {
      try {
        return Object.keys(window[part]);
      } catch {
        return [];
      }
    },
  };
}

// forAll is for all tabs and later visits, forTab for reloads of this tab.
export const forAll = storage("localStorage");
export const forTab = storage("sessionStorage");
