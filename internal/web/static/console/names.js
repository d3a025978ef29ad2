// Sales by their titles, with the id behind. Titles are read once per page load; a sale that was deleted keeps its id.

import { getMine } from "../lib/api.js";
import { h, text } from "../lib/dom.js";
import { t } from "../lib/i18n.js";

const sales = new Map(); // {title, read} by id; the title is "" while it is not known

// titleOf returns the title of a sale as it is known now: its id until it is read. known() is called when it is.
export function titleOf(id, known) {
  let sale = sales.get(id);
  if (!sale) {
    sale = { title: "" };
    sales.set(id, sale);
    sale.read = getMine(`/vouchers/${id}`).then((v) => {
      sale.title = v.title;
    }, (problem) => {
      if (!problem.code) throw problem;
      if (problem.code !== "not_found") sales.delete(id); // read again the next time
    });
  }
  if (!sale.title) sale.read.then(() => sale.title && known());
  return sale.title || t("sale.untitled", { id });
}

// saleLink returns the link to a sale by its title, which is read unless it is given, with the id behind.
export function saleLink(id, title = "") {
  if (title) sales.set(id, { title });
  const link = h("a", { href: `/console/sales/${id}` });
  const show = () => text(link, titleOf(id, show));
  show();
  return named(link, id);
}

// named returns a name with the id behind.
export const named = (name, id) => h("span", { class: "named" }, name, " ", h("small", {}, id));
