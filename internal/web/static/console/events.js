// The outbox: the events of orders that are sent to SECKILL_EVENTS_URL.

import { getMine } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { go } from "../lib/frame.js";
import { stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import { form } from "./form.js";
import { button, chip, errorBox, finder, head, listing, statusLine } from "./parts.js";

const states = ["pending", "delivered", "failed"];
const kinds = { delivered: "good", failed: "bad" };

// mount shows the events, each with its payload and the last answer. The filter is kept in the URL.
export function mount(root) {
  const post = intents();
  const out = errorBox();
  const status = statusLine();
  const query = new URLSearchParams(location.search);
  const state = states.includes(query.get("status")) ? query.get("status") : "";
  const f = form({
    name: "filter", label: t("events.show"), kind: "quiet",
    fields: [
      { name: "status", kind: "choice", label: t("events.status"), options: ["all", ...states].map((s) => [s, t(`events.status.${s}`)]), value: state || "all" },
      { name: "order_id", kind: "id", label: t("orders.one"), value: query.get("order_id") ?? "" },
    ],
    work: (values) => void go(`/console/events?${new URLSearchParams(values)}`),
  });
  const filter = { ...(state && { status: state }), ...(query.get("order_id") && { order_id: query.get("order_id") }) };
  const all = listing({
    caption: t("events.title"), empty: t("events.none"),
    columns: [
      { label: t("events.created_at"), cell: (e) => stamp(e.payload.created_at) },
      { label: t("events.type"), cell: (e) => e.payload.type },
      { label: t("orders.one"), cell: (e) => h("a", { href: `/console/orders/${e.payload.data.id}?user_id=${e.payload.data.user_id}` }, e.payload.data.id) },
      { label: t("events.status"), cell: (e) => chip(t(`events.status.${e.status}`), kinds[e.status]) },
      { label: t("events.tries"), number: true, cell: (e) => e.tries },
      { label: t("events.next_try_at"), cell: (e) => (e.next_try_at ? stamp(e.next_try_at) : "–") },
      { label: t("events.answer"), cell: (e) => [e.answer_status, e.answer].filter(Boolean).join(" ") || "–" },
      { label: t("events.payload"), cell: (e) => h("details", {}, h("summary", {}, t("events.payload")), h("pre", {}, JSON.stringify(e.payload, null, 2))) },
      ...(session.may("operate") ? [{ label: t("events.do"), cell: actions }] : []),
    ],
    read: (cursor) => getMine(`/admin/events?${new URLSearchParams({ limit: 50, ...filter, ...(cursor && { cursor }) })}`),
  });

  function actions(event) {
    const repeat = button({ name: "repeat", out, label: t("events.repeat") }, async () => {
      status.clear();
      try {
        await post(`/admin/events/${event.id}/repeat`);
        status.show(t("events.repeated"));
      } finally {
        await all.load(); // the request may have succeeded although its answer was lost
      }
    });
    return h("div", { class: "row-actions", "data-event": event.id }, repeat);
  }

  root.replaceChildren(head(t("events.title"), h("p", {}, t("events.lead"))), finder(t("events.find"), f.element),
    h("div", { class: "bar" }, button({ name: "refresh", out }, () => all.load())), status.element, out.element, all.element);
  all.load();
}
