// The outbox: the events of orders that are sent to SECKILL_EVENTS_URL.

import { h } from "../lib/dom.js";
import { go } from "../lib/frame.js";
import { stamp, t } from "../lib/i18n.js";
import { form } from "./form.js";
import { button, chip, worklist } from "./parts.js";

const states = ["pending", "delivered", "failed"];
const kinds = { delivered: "good", failed: "bad" };

// mount shows the events, each with its payload and the last answer. The filter is kept in the URL.
export function mount(root) {
  const query = new URLSearchParams(location.search);
  const status = states.includes(query.get("status")) ? query.get("status") : "";
  const order = query.get("order_id") ?? "";
  const filter = form({
    name: "filter", label: t("events.show"), kind: "quiet",
    fields: [
      { name: "status", kind: "choice", label: t("voucher.state"), options: ["all", ...states].map((s) => [s, t(`events.status.${s}`)]), value: status || "all" },
      { name: "order_id", kind: "id", label: t("orders.one"), value: order },
    ],
    work: (values) => void go(`/console/events?${new URLSearchParams(values)}`),
  });
  worklist(root, {
    name: "events", path: "/admin/events", params: { ...(status && { status }), ...(order && { order_id: order }) }, filter, actions,
    columns: [
      { label: t("events.created_at"), cell: (e) => stamp(e.payload.created_at) },
      { label: t("events.type"), cell: (e) => e.payload.type },
      { label: t("orders.one"), cell: (e) => h("a", { href: `/console/orders/${e.payload.data.id}?user_id=${e.payload.data.user_id}` }, e.payload.data.id) },
      { label: t("voucher.state"), cell: (e) => chip(t(`events.status.${e.status}`), kinds[e.status]) },
      { label: t("events.tries"), number: true, cell: (e) => e.tries },
      { label: t("events.next_try_at"), cell: (e) => (e.next_try_at ? stamp(e.next_try_at) : "–") },
      { label: t("events.answer"), cell: (e) => [e.answer_status, e.answer].filter(Boolean).join(" ") || "–" },
      { label: t("events.payload"), cell: (e) => h("details", {}, h("summary", {}, t("events.payload")), h("pre", {}, JSON.stringify(e.payload, null, 2))) },
    ],
  });
}

function actions(event, { out, post, change }) {
  const repeat = button({ name: "repeat", out, label: t("events.repeat") }, () => change(post(`/admin/events/${event.id}/repeat`), t("events.repeated")));
  return h("div", { class: "row-actions", "data-event": event.id }, repeat);
}
