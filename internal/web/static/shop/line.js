// The line in which a queued order waits.

import { number, t } from "../lib/i18n.js";

// waits says what a queued order waits for, and how many are before it if that is known.
export function waits(order) {
  const ahead = order?.ahead;
  if (ahead === undefined) return t("buy.queuedNote");
  return `${t("buy.queuedNote")} ${ahead > 0 ? t("buy.ahead", { count: number(ahead) }) : t("buy.next")}`;
}
