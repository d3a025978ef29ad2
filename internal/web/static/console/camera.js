// Codes by the camera, where the browser can read them.

import { h, show } from "../lib/dom.js";
import { sleep } from "../lib/events.js";
import { t } from "../lib/i18n.js";
import { button, statusLine } from "./parts.js";

const EVERY = 200; // ms between two looks

// camera returns a button that reads a QR code, which found(code) receives. It is hidden unless the browser detects codes
// and has a camera.
export function camera(found) {
  const status = statusLine();
  const video = h("video", { muted: true, playsinline: true, "aria-label": t("camera.picture") });
  const start = button({ name: "scan", label: t("camera.start"), out: { clear: status.clear, show: () => {} } }, scan);
  const stop = h("button", { type: "button", class: "quiet", "data-do": "stop-scan", onclick: () => end() }, t("do.stop"));
  const element = h("div", { class: "camera" }, start, video, stop, status.element);
  let stream = null;
  for (const el of [start, video, stop]) show(el, false);
  available().then((yes) => show(start, yes));

  async function scan() {
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    } catch {
      return status.show(t("camera.refused"));
    }
    if (!element.isConnected) return end();
    video.srcObject = stream;
    await video.play();
    for (const el of [video, stop]) show(el, true);
    show(start, false);
    look(new globalThis.BarcodeDetector({ formats: ["qr_code"] }));
  }

  async function look(detector) {
    for (; stream; await sleep(EVERY)) {
      const [code] = await detector.detect(video).catch(() => []);
      if (!code || !stream) continue;
      end();
      found(code.rawValue);
    }
  }

  function end() {
    for (const track of stream?.getTracks() ?? []) track.stop();
    if (stream) show(start, true);
    stream = null;
    video.srcObject = null;
    for (const el of [video, stop]) show(el, false);
  }

  return { element, end };
}

async function available() {
  if (!("BarcodeDetector" in globalThis) || !navigator.mediaDevices?.enumerateDevices) return false;
  try {
    const formats = await globalThis.BarcodeDetector.getSupportedFormats();
    const devices = await navigator.mediaDevices.enumerateDevices();
    return formats.includes("qr_code") && devices.some((d) => d.kind === "videoinput");
  } catch {
    return false;
  }
}
