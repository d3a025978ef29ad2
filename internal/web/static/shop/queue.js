// The position of a queued order.

import { number, t } from "../lib/i18n.js";

// queueNote says that an order is queued, and how many orders are ahead of it if that is known.
export function queueNote(order) {
  const ahead = order?.ahead;
  if (ahead === undefined) return t("buy.queuedNote");
  return `${t("buy.queuedNote")} ${ahead > 0 ? t("buy.ahead", { count: number(ahead) }) : t("buy.next")}`;
}
