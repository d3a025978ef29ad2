// The picture in the form of a sale. It is uploaded when it is chosen; the value of the field is its id.

import { announce } from "../lib/announce.js";
import { BASE, postMine } from "../lib/api.js";
import { attr, h, show, text } from "../lib/dom.js";
import { explain } from "../lib/explain.js";
import { number, t } from "../lib/i18n.js";

const TYPES = ["image/jpeg", "image/png", "image/webp", "image/gif"];
const MAX_MB = 10;
const SIDE = 1280; // pixels; the server keeps no more
const SMALL = 900_000; // bytes; many proxies refuse a body of more than 1 MB
const TIMEOUT = 60_000; // ms; phones upload slowly

// Pictures of two pixels side by side, whose EXIF data say that they belong one above the other.
const SIDEWAYS = {
  "image/png": "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAAAAADRSSBWAAAAGmVYSWZNTQAqAAAACAABARIAAwAAAAEABgAAAAAAANZnS2kAAAALSURBVHjaY2BgAAAAAwABKwlNhAAAAABJRU5ErkJggg==",
  "image/webp": "UklGRk4AAABXRUJQVlA4WAoAAAAIAAAAAQAAAAAAVlA4TA4AAAAvAQAAAAcQEf0PRET/A0VYSUYaAAAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAA=",
};

// turns reports whether the browser turns pictures of a type upright when it decodes them. All of them do so for JPEG.
async function turns(type) {
  if (!SIDEWAYS[type]) return true;
  const file = Uint8Array.from(atob(SIDEWAYS[type]), (c) => c.charCodeAt(0));
  return (await createImageBitmap(new Blob([file], { type }))).width === 1;
}

// reduced returns a smaller copy of a picture that is large in bytes or pixels, and any other file as it is. Phones take
// photos of 50 megapixels, which would be slow to send, and which the server may not have the memory to decode. If the
// browser does not turn the picture, the copy keeps the EXIF data, and the server does.
async function reduced(file) {
  try {
    const bitmap = await createImageBitmap(file);
    const scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
    let copy = file;
    if (scale < 1 || file.size > SMALL) {
      copy = await drawn(bitmap, scale);
      const exif = (await turns(file.type)) ? null : exifOf(await file.arrayBuffer());
      if (copy && exif) copy = withExif(copy, exif);
    }
    bitmap.close();
    return copy ?? file;
  } catch {
    return file; // the browser cannot decode it; the server may, or says why not
  }
}

// exifOf returns the EXIF data of a PNG or WebP file, or null.
function exifOf(buffer) {
  const view = new DataView(buffer);
  const png = view.getUint32(0) === 0x89504e47;
  for (let at = png ? 8 : 12; at + 12 <= buffer.byteLength;) {
    const kind = view.getUint32(png ? at + 4 : at);
    const length = png ? view.getUint32(at) : view.getUint32(at + 4, true);
    if (kind === 0x65584966 || kind === 0x45584946) { // eXIf in PNG, EXIF in WebP
      const prefix = view.getUint32(at + 8) === 0x45786966 ? 6 : 0; // "Exif", which belongs to JPEG
      return buffer.slice(at + 8 + prefix, at + 8 + length);
    }
    at += png ? 12 + length : 8 + length + (length % 2);
  }
  return null;
}

// withExif inserts EXIF data into a JPEG file, if a segment can hold it.
function withExif(file, exif) {
  const length = 2 + 6 + exif.byteLength;
  if (length > 0xffff) return file;
  const head = [0xff, 0xe1, length >> 8, length & 0xff, 0x45, 0x78, 0x69, 0x66, 0, 0];
  return new Blob([file.slice(0, 2), new Uint8Array(head), exif, file.slice(2)]);
}

// drawn returns a picture in another size as a JPEG file of at most SMALL bytes, or nothing.
async function drawn(bitmap, scale) {
  const [width, height] = [bitmap.width, bitmap.height].map((side) => Math.max(1, Math.round(side * scale)));
  const canvas = h("canvas", { width, height });
  const brush = canvas.getContext("2d");
  brush.fillStyle = "#fff"; // JPEG has no transparency
  brush.fillRect(0, 0, width, height);
  brush.imageSmoothingQuality = "high";
  brush.drawImage(bitmap, 0, 0, width, height);

  for (const quality of [0.92, 0.8, 0.6, 0.3]) {
    const copy = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", quality));
    if (copy?.size <= SMALL) return copy;
  }
}

// picture returns the control of a field whose hidden input holds the id of a picture, or nothing. `uploading` is true
// while a file is being sent, refresh() shows the present value, and showError(sentence) is that of the field.
export function picture(input, showError) {
  const file = h("input", { type: "file", class: "sr", id: input.id, accept: TYPES.join(), "aria-describedby": input.getAttribute("aria-describedby"), onchange: onChoose });
  const image = h("img", { alt: t("picture.alt"), class: "image" });
  const progress = h("progress", { "aria-label": t("picture.uploading") });
  const choose = h("label", { class: "button quiet", for: input.id });
  const remove = h("button", { type: "button", class: "link", "data-do": "remove-picture", onclick: onRemove }, t("picture.remove"));
  const control = {
    element: h("div", { class: "picture" }, input, file, image, progress, h("div", { class: "row-actions" }, choose, remove)),
    focusable: file, uploading: false, refresh,
  };
  let turn = 0;
  for (const name of ["id", "aria-describedby"]) attr(input, name, null); // those of the visible input
  show(input, false);

  function refresh() {
    input.dispatchEvent(new Event("input", { bubbles: true })); // for the preview
    attr(image, "src", input.value === "" ? null : `${BASE}/images/${input.value}`);
    show(image, input.value);
    show(remove, input.value);
    show(progress, control.uploading);
    text(choose, t(input.value ? "picture.replace" : "picture.upload"));
  }

  function onRemove() {
    turn++;
    control.uploading = false;
    input.value = "";
    showError("");
    refresh();
    file.focus();
  }

  async function onChoose() {
    const [chosen] = file.files;
    file.value = ""; // the same file can be chosen again
    if (!chosen) return;
    if (!TYPES.includes(chosen.type)) return showError(t("picture.type", { name: chosen.name }));
    const mine = ++turn;
    showError("");
    control.uploading = true;
    refresh();
    announce(t("picture.uploading"));
    try {
      const small = await reduced(chosen);
      if (mine !== turn) return;
      if (small.size > MAX_MB << 20) return showError(t("picture.size", { name: chosen.name, size: number(Math.ceil(small.size / 2 ** 20)) }));
      const body = new FormData();
      body.append("image", small, "picture");
      const { id } = await postMine("/admin/images", { body, timeout: TIMEOUT });
      if (mine !== turn) return;
      input.value = id;
      announce(t("picture.uploaded"));
    } catch (problem) {
      if (!problem.code) throw problem;
      if (mine === turn) showError(problem.errors.length > 0 ? t("picture.refused", { name: chosen.name }) : explain(problem));
    } finally {
      if (mine === turn) control.uploading = false;
      refresh();
    }
  }

  refresh();
  return control;
}
