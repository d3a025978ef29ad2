// The position of a queued order.

import * as clock from "../lib/clock.js";
import { number, t } from "../lib/i18n.js";

const SLOW = 10_000; // ms after which an order without others ahead of it is no longer "next": the server is retrying it

// queueNote says that an order is queued, and how many orders are ahead of it if that is known.
export function queueNote(order) {
  const ahead = order?.ahead;
  if (ahead === undefined) return t("buy.queuedNote");
  const slow = ahead === 0 && clock.now() - Date.parse(order.created_at) > SLOW;
  return `${t("buy.queuedNote")} ${ahead > 0 ? t("buy.ahead", { count: number(ahead) }) : t(slow ? "buy.slow" : "buy.next")}`;
}
