// Icons, drawn in the colour of the text around them. Screen readers skip them: the words beside them say the same.

import { svg } from "./dom.js";

const paths = {
  alert: "M12 4 2.5 20h19zM12 10v4.5M12 17.2v.3",
  back: "M15 5l-7 7 7 7",
  bell: "M6 17v-6a6 6 0 0 1 12 0v6l1.5 2h-15zM10.5 21.5h3",
  calendar: "M4 6h16v14H4zM4 10.5h16M8.5 3v4M15.5 3v4",
  check: "M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M8 12.2l2.8 2.8L16 9.5",
  clock: "M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M12 7v5l3.5 2",
  console: "M4 4h7v9H4zM15 4h5v5h-5zM15 13h5v7h-5zM4 17h7v3H4z",
  cross: "M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M9 9l6 6M15 9l-6 6",
  exit: "M14 4H5v16h9M10 12h11M17 8l4 4-4 4",
  orders: "M6 3h12v18l-3-2-3 2-3-2-3 2zM9.5 8h5M9.5 12h5",
  pin: "M12 21c5-5 7-8.2 7-11a7 7 0 0 0-14 0c0 2.8 2 6 7 11zM12 7.5a2.5 2.5 0 1 0 0 5a2.5 2.5 0 1 0 0-5",
  share: "M12 15V3.5M8 7l4-3.5L16 7M5 12v8h14v-8",
  user: "M12 4a4 4 0 1 0 0 8a4 4 0 1 0 0-8M4.5 20.5a7.5 7.5 0 0 1 15 0",
};

// icon returns the icon with a name.
export const icon = (name) => svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: paths[name] }));
