// Drift between the database, Redis and the queue, and its repair.

import { getMine } from "../lib/api.js";
import { confirm } from "../lib/confirm.js";
import { h, show, text } from "../lib/dom.js";
import { number, stamp, t } from "../lib/i18n.js";
import { intents } from "../lib/intent.js";
import { session } from "../lib/session.js";
import { findingOf } from "./details.js";
import { saleLink } from "./names.js";
import { button, chip, errorBox, head, reading, section, table } from "./parts.js";

const LISTED = 5; // orders per finding

// mount shows the report.
export function mount(root) {
  const post = intents();
  const out = errorBox();
  const summary = h("p", { class: "summary", role: "status" }, t("loading"));
  const reports = h("div", { class: "reports" });
  const refresh = button({ name: "refresh", label: t("reconcile.refresh"), out }, async () => {
    const answer = await reading(out, () => getMine("/admin/reconcile"));
    if (answer) render(answer, false);
    else text(summary, "");
  });
  const repair = button({ name: "apply", kind: "primary", label: t("reconcile.apply"), out }, async () => {
    if (await confirm(t("reconcile.sure"), t("reconcile.apply"))) render(await post("/admin/reconcile", {}), true);
  });

  function render(answer, applied) {
    const found = answer.reports.flatMap((r) => r.findings);
    const repaired = found.filter((f) => f.repaired).length;
    const left = found.length - repaired;
    text(summary, [
      applied ? t("reconcile.repaired", { n: number(repaired) }) : "",
      left === 0 ? t("reconcile.clean", { n: number(answer.reports.length) }) : t("reconcile.found", { n: number(left) }),
      answer.left_out > 0 ? t("reconcile.leftOut", { n: number(answer.left_out) }) : "",
    ].filter(Boolean).join(" "));
    show(repair, session.may("administer") && found.some((f) => f.repairable && !f.repaired));
    reports.replaceChildren(...answer.reports.filter((r) => r.findings.length > 0).map(report));
  }

  function report(r) {
    const rows = table(t("reconcile.findings", { id: r.voucher_id }), [
      { label: t("reconcile.kind"), cell: (f) => h("code", {}, f.kind) },
      { label: t("reconcile.what"), cell: (f) => { const [detail, lang] = findingOf(f); return h("span", { lang }, detail); } },
      { label: t("reconcile.count"), number: true, cell: (f) => number(f.count) },
      { label: t("orders.title"), cell: (f) => orders(f) },
      { label: t("orders.status"), cell: (f) => state(f) },
    ]);
    rows.set(r.findings);
    const sale = section("",
      h("p", { class: "note" }, t("reconcile.at", { at: stamp(r.checked_at) }), r.busy ? ` ${t("reconcile.busy")}` : ""),
      rows.element);
    sale.querySelector("h2").replaceChildren(saleLink(r.voucher_id));
    return sale;
  }

  const orders = (f) => f.orders.slice(0, LISTED).flatMap((o) => [h("a", { href: `/console/orders/${o.order_id}` }, o.order_id), " "])
    .concat(f.orders.length > LISTED ? t("reconcile.more", { n: number(f.orders.length - LISTED) }) : []);

  function state(f) {
    const word = f.repaired ? "done" : f.repairable ? "repairable" : "manual";
    return chip(t(`reconcile.is.${word}`), f.repaired ? "good" : "bad");
  }

  show(repair, false);
  root.replaceChildren(head(t("reconcile.title"), h("p", {}, t("reconcile.lead"))),
    h("div", { class: "bar" }, refresh, repair), out.element, summary, reports, h("p", { class: "note" }, t("reconcile.meaning")));
  refresh.click();
}
