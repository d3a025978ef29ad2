// The storefront: its pages and navigation.

import * as frame from "../lib/frame.js";
import { t } from "../lib/i18n.js";
import { missing } from "../lib/missing.js";
import { session } from "../lib/session.js";
import { account } from "./account.js";
import * as buy from "./buy.js";
import * as mine from "./mine.js";
import { mount as orders } from "./orders.js";
import * as rooms from "./rooms.js";
import { mount as sale, title as saleTitle } from "./sale.js";
import * as sales from "./sales.js";
import { mount as store } from "./store.js";
import texts from "./texts.js";

sales.start();
buy.start();
frame.start({
  texts,
  pages: [
    { path: /^\/$/, title: "store.title", mount: store, nav: "/" },
    { path: /^\/sales\/([^/]+)$/, title: saleTitle, mount: sale, nav: "/" },
    { path: /^\/orders$/, title: "orders.title", mount: orders, nav: "/orders" },
    { path: /^\/orders\/([^/]+)$/, title: "orders.one", mount: orders, nav: "/orders" },
  ],
  missing: { title: "missing.title", mount: missing("/", "store.all") },
  links: (user) => [
    frame.link("/", "store.nav"), frame.link("/orders", "orders.title", "orders"),
    user?.permissions ? frame.link("/console", "console", "console") : "",
  ],
  foot: () => t("foot"),
  badge: rooms.badge,
  account,
});
rooms.onChange(frame.showTitle);
rooms.start();
mine.start();
session.start();
