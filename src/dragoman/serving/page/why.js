/* The explanation of a translation, in a frame that cannot reach this page. */

import { post } from "./api.js";
import { byId } from "./dom.js";

const dialog = byId("why-dialog");
const frame = byId("why-frame");
const status = byId("why-status");
const save = byId("why-save");
let request = null;
let address = "";

/** Ask the server for an explanation and show it. */
export async function explain(text, source, target) {
  request = new AbortController();
  status.textContent = "The model translates the sentence once more and records every step…";
  frame.hidden = save.hidden = true;
  dialog.showModal();
  try {
    const { html } = await post("explain", { text, source, target }, request.signal);
    frame.srcdoc = html;
    frame.hidden = false;
    address = URL.createObjectURL(new Blob([html], { type: "text/html" }));
    save.href = address;
    save.hidden = false;
    status.textContent = "";
  } catch (error) {
    if (error.name !== "AbortError") status.textContent = error.message;
  }
}

byId("why-close").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => {
  request?.abort();
  frame.srcdoc = "";
  if (address) URL.revokeObjectURL(address);
  address = "";
});
