/* Uploads documents, follows their progress and saves the results. */

import { documentResult, documentStatus, upload } from "./api.js";
import { announce, byId, element, icon, showProblem } from "./dom.js";
import { AUTO } from "./languages.js";

const FIRST_WAIT = 300; // Milliseconds between two questions; it grows while a document is long.
const MAX_WAIT = 3000;

const FORMATS = {
  Word: [".docx", ".docm", ".dotx"],
  PowerPoint: [".pptx", ".pptm", ".potx"],
  Excel: [".xlsx", ".xlsm", ".xltx"],
  OpenDocument: [".odt", ".ott"],
  text: [".txt"],
  HTML: [".html", ".htm", ".xhtml"],
  Markdown: [".md", ".markdown"],
  subtitles: [".srt", ".vtt"],
  PO: [".po", ".pot"],
  XLIFF: [".xlf", ".xliff"],
  TMX: [".tmx"],
  JSON: [".json", ".arb"],
  "Android and DocBook XML": [".xml", ".docbook", ".page"],
  "iOS strings": [".strings"],
  "Java properties": [".properties"],
  "Qt TS": [".ts"],
};

const problem = byId("document-problem");
let context = null; // {server, languages, choice: () => {source, target}}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export function start(given) {
  context = given;
  const extensions = context.server.document_extensions;
  byId("file").accept = extensions.join(",");
  const megabytes = Math.floor(context.server.limits.upload_bytes / 2 ** 20);
  byId("formats").textContent =
    `${formatNames(extensions).join(", ")}. Up to ${megabytes} MB. Layout and placeholders stay as they are.`;
}

/** Names of formats for people; an extension without a name stands for itself. */
function formatNames(extensions) {
  const named = new Set(Object.values(FORMATS).flat());
  const names = Object.keys(FORMATS).filter((name) => FORMATS[name].some((extension) => extensions.includes(extension)));
  return [...names, ...extensions.filter((extension) => !named.has(extension))];
}

export function add(files) {
  showProblem(problem, "");
  for (const file of files) translate(file);
}

function reasonAgainst(file) {
  const { document_extensions: extensions, limits } = context.server;
  const dot = file.name.lastIndexOf(".");
  const extension = dot < 0 ? "" : file.name.slice(dot).toLowerCase();
  if (!extensions.includes(extension)) return `${file.name}: this format is not supported.`;
  if (file.size > limits.upload_bytes) return `${file.name} is too large.`;
  return "";
}

/** The name of the result: guide_de.po for guide.po. */
function resultName(name, target) {
  const dot = name.lastIndexOf(".");
  return `${name.slice(0, dot)}_${target}${name.slice(dot)}`;
}

class JobView {
  constructor(name, from, to) {
    this.state = element("p", { class: "state" }, "Uploading…");
    this.bar = element("progress", { max: "1", "aria-label": `Progress of ${name}` });
    this.action = element("div", {});
    byId("jobs").prepend(
      element(
        "li",
        {},
        icon("file", "large"),
        element("div", {}, element("p", { class: "name" }, name, element("small", {}, `${from} → ${to}`)), this.state, this.bar),
        this.action,
      ),
    );
  }

  show(text, share = null) {
    this.state.textContent = text;
    if (share !== null) this.bar.value = share;
  }

  fail(text) {
    this.state.classList.add("error");
    this.state.setAttribute("role", "alert");
    this.state.textContent = text;
    this.bar.hidden = true;
  }

  finish(text, name, job) {
    this.show(text, 1);
    this.bar.hidden = true;
    const button = element("button", { class: "main-button", type: "button", "aria-label": `Download ${name}` }, "Download");
    button.addEventListener("click", async () => {
      try {
        save(await documentResult(job), name);
      } catch (error) {
        this.fail(error.message);
      }
    });
    this.action.replaceChildren(button);
  }
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

async function translate(file) {
  const reason = reasonAgainst(file);
  if (reason) {
    showProblem(problem, reason);
    return;
  }
  const { source, target } = context.choice();
  const from = source === AUTO ? "detected language" : context.languages.name(source);
  const view = new JobView(file.name, from, context.languages.name(target));
  const form = new FormData();
  form.append("target", target);
  if (source !== AUTO) form.append("source", source);
  form.append("file", file);
  try {
    const job = await upload("documents", form);
    const status = await follow(job, view);
    if (status.status === "error") {
      view.fail(status.message ?? "The document could not be translated.");
      return;
    }
    const flagged = status.flagged ? `, ${status.flagged} to check` : "";
    view.finish(`Done: ${status.units} texts${flagged}.`, resultName(file.name, target), job);
    announce(`${file.name} is translated.`);
  } catch (error) {
    view.fail(error.message);
  }
}

async function follow(job, view) {
  let wait = FIRST_WAIT;
  for (;;) {
    const status = await documentStatus(job);
    if (status.status === "done" || status.status === "error") return status;
    if (status.status === "queued") view.show("Waiting…");
    else view.show(`Translating: ${Math.round(100 * status.progress)} %`, status.progress);
    await pause(wait);
    wait = Math.min(wait * 1.3, MAX_WAIT);
  }
}

byId("file").addEventListener("change", (event) => {
  add(event.target.files);
  event.target.value = "";
});
