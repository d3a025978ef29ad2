// Downloads of lists as CSV files.

import { asUser, Problem } from "../lib/api.js";
import { language, t } from "../lib/i18n.js";
import { save } from "../lib/save.js";
import { button } from "./parts.js";

const TIMEOUT = 30_000; // ms until the file begins

// region returns the parameters of the API for a spreadsheet program of the visitor's region, time zone and language. Where
// the decimal separator is a comma, such programs expect semicolons between cells.
function region() {
  const { timeZone: name } = new Intl.DateTimeFormat().resolvedOptions();
  const timeZone = name === "Etc/Unknown" ? "UTC" : name; // which such a browser shows
  const decimal = new Intl.NumberFormat(navigator.language).formatToParts(1.5).find((p) => p.type === "decimal").value;
  return {
    lang: language(), ids: "text", ...(timeZone && { tz: timeZone }), ...(decimal === "," && { separator: ";", decimal }),
  };
}

// download returns a button that saves the file of a path of the API. The browser collects the file outside of the memory
// of the page, and nothing is saved unless it arrived to the end. The file has what belongs to the sale of the query, or
// everything, whatever else the page filters.
export function download({ path, query = {}, file, out }) {
  const label = t(`files.${file}${query.voucher_id ? "OfSale" : ""}`);
  return button({ name: `download-${file}`, label, out }, async () => {
    const response = await asUser("GET", `${path}?${new URLSearchParams({ ...query, ...region() })}`, { timeout: TIMEOUT, stream: true });
    const blob = await response.blob().catch((err) => {
      throw new Problem({ code: "network", detail: String(err) });
    });
    save(blob, /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition"))[1]);
  });
}
