/* The page: languages, text, tabs and keys. */

import { ApiError, currentKey, get, post, setKey } from "./api.js";
import * as documents from "./documents.js";
import { announce, byId, element, showProblem } from "./dom.js";
import * as improve from "./improve.js";
import { AUTO, Chooser, Languages } from "./languages.js";
import { showNotes } from "./notes.js";
import * as output from "./output.js";
import { explain } from "./why.js";

const TYPING_PAUSE = 120; // Milliseconds without a key before the text is translated.
const READING_PAUSE = 1200; // Milliseconds before a screen reader reads the translation.
const UNCERTAIN = 0.7;
const LONG_TEXT = 600; // Characters from which the letters are smaller.

const sourceText = byId("source-text");
const problem = byId("problem");
const actions = [byId("copy"), byId("alternatives"), byId("correct"), byId("why")];

let server = null; // The answer of /v1/models.
let languages = null;
let choice = { source: AUTO, target: "" };
let translation = null; // The last answer, with changes by the reader.
let request = null;
let typingTimer = 0;
let readingTimer = 0;
let selected = 0;

/* Languages */

const sourceChooser = new Chooser("source-chooser", (code) => choose({ ...choice, source: code }));
const targetChooser = new Chooser("target-chooser", (code) => choose({ ...choice, target: code }));

function choose(wanted) {
  const targets = languages.targetsOf(wanted.source);
  const target = targets.includes(wanted.target) ? wanted.target : targets[0];
  choice = { source: wanted.source, target };
  sourceText.lang = choice.source === AUTO ? "" : choice.source;
  showLanguages();
  try {
    localStorage.setItem("languages", JSON.stringify(choice));
  } catch {
    // The choice lasts until the page is closed.
  }
  translateNow();
}

function showLanguages() {
  const isDetected = choice.source === AUTO && translation && !byId("text-panel").hidden;
  const label = isDetected
    ? [languages.name(translation.source), element("small", {}, "detected")]
    : ["Detect language"];
  sourceChooser.setOptions([
    { code: AUTO, name: "Detect language" },
    ...languages.sources.map((code) => ({ code, name: languages.name(code) })),
  ]);
  sourceChooser.setValue(choice.source, ...(choice.source === AUTO ? label : [languages.name(choice.source)]));
  targetChooser.setOptions(
    languages.targetsOf(choice.source).map((code) => {
      const pivot = languages.pair(choice.source, code)?.pivot;
      return { code, name: languages.name(code), note: pivot ? `through ${languages.name(pivot)}` : "" };
    }),
  );
  targetChooser.setValue(choice.target, languages.name(choice.target));
  byId("swap").disabled = !languages.pair(choice.target, swapTarget());
}

/** The source language if it is known: given or detected. */
function swapTarget() {
  return choice.source === AUTO ? (translation?.source ?? "") : choice.source;
}

byId("swap").addEventListener("click", () => {
  if (translation) {
    sourceText.value = translation.text;
    measureSource();
  }
  choose({ source: choice.target, target: swapTarget() });
});

/* Text */

function measureSource() {
  const length = [...sourceText.value].length;
  const limit = server?.limits.split_characters ?? Infinity;
  byId("count").textContent = length ? `${length.toLocaleString("en")} / ${limit.toLocaleString("en")}` : "";
  byId("count").classList.toggle("over", length > limit);
  byId("clear").hidden = !sourceText.value;
  const isLong = length > LONG_TEXT;
  for (const id of ["source-text", "source-marks", "output"]) byId(id).classList.toggle("long", isLong);
  output.forgetSource();
  return length <= limit;
}

sourceText.addEventListener("input", (event) => {
  const fits = measureSource();
  byId("output").classList.toggle("stale", Boolean(translation));
  clearTimeout(typingTimer);
  clearTimeout(readingTimer);
  request?.abort();
  if (!fits) {
    showProblem(problem, "The text is too long. Upload it as a document, or shorten it.");
    return;
  }
  const isTyped = event.inputType?.startsWith("insertText") || event.inputType?.startsWith("delete");
  if (!isTyped || !sourceText.value.trim()) translateNow();
  else typingTimer = setTimeout(translateNow, TYPING_PAUSE);
});

async function translateNow() {
  clearTimeout(typingTimer);
  request?.abort();
  improve.close();
  const text = sourceText.value;
  if (!text.trim()) {
    showTranslation(null);
    return;
  }
  const current = new AbortController();
  request = current;
  byId("busy").hidden = false;
  byId("output").setAttribute("aria-busy", "true");
  const body = { texts: [text], target: choice.target, alignment: true, sentences: true };
  if (choice.source !== AUTO) body.source = choice.source;
  try {
    const answer = await post("translate", body, current.signal);
    if (request === current) showTranslation(answer.translations[0]);
  } catch (error) {
    if (request === current) onProblem(error);
  } finally {
    if (request === current) {
      byId("busy").hidden = true;
      byId("output").removeAttribute("aria-busy");
    }
  }
}

function onProblem(error) {
  if (error.name === "AbortError") return;
  if (!(error instanceof ApiError)) throw error;
  showTranslation(null);
  const isTemporary = ["unreachable", "overloaded", "rate", "internal"].includes(error.kind);
  showProblem(problem, error.message, isTemporary ? translateNow : null);
}

function showTranslation(answer) {
  translation = answer;
  selected = 0;
  showProblem(problem, "");
  byId("output").classList.remove("stale");
  byId("placeholder").hidden = Boolean(answer);
  byId("notes").replaceChildren();
  byId("source-note").textContent = "";
  for (const button of actions) button.disabled = !answer;
  // An explanation shows one model; through a pivot language there are two.
  if (answer?.pivot) byId("why").disabled = true;
  if (answer) {
    output.draw(answer.sentences, { source: answer.source, target: choice.target });
    showNotes(answer, languages);
    if (choice.source === AUTO) showDetection(answer);
    readingTimer = setTimeout(() => announce(translation?.text ?? ""), READING_PAUSE);
  } else {
    output.clear();
    byId("busy").hidden = true;
  }
  showLanguages();
}

function showDetection(answer) {
  const certainty = answer.confidence < UNCERTAIN ? ", not certain" : "";
  const percent = Math.round(100 * answer.confidence);
  byId("source-note").textContent = `Looks like ${languages.name(answer.source)} (${percent} %${certainty})`;
}

/** Put another wording into the translation; returns the changed sentence. */
improve.whenWordingIsChosen((index, text) => {
  const old = translation.sentences[index];
  // What is known about the tokens belongs to the wording of the model.
  const changed = { ...old, text, machine: old.machine ?? old.text, tokens: [], alignment: [], flags: [] };
  const sentences = translation.sentences.with(index, changed);
  const joined = sentences.map((sentence) => sentence.text + sentence.gap).join("");
  translation = { ...translation, text: joined, sentences };
  output.draw(sentences, { source: translation.source, target: choice.target });
  return changed;
});

function improveSentence(index, focusOn) {
  selected = index;
  const facts = { source: translation.source, target: choice.target, model: translation.model };
  improve.open({ index, sentence: translation.sentences[index], ...facts }, focusOn);
}

/** The chosen sentence, or the first one with text. */
function currentSentence() {
  if (translation.sentences[selected]?.source) return selected;
  return translation.sentences.findIndex((sentence) => sentence.source);
}

output.whenSentenceIsChosen((index) => improveSentence(index, "wordings"));
byId("alternatives").addEventListener("click", () => improveSentence(currentSentence(), "wordings"));
byId("correct").addEventListener("click", () => improveSentence(currentSentence(), "correction"));
byId("why").addEventListener("click", () => {
  explain(translation.sentences[currentSentence()].source, translation.source, choice.target);
});
byId("clear").addEventListener("click", () => {
  sourceText.value = "";
  measureSource();
  translateNow();
  sourceText.focus();
});

byId("copy").addEventListener("click", async () => {
  const button = byId("copy");
  await copy(translation.text);
  button.classList.add("done");
  button.querySelector("span").textContent = "Copied";
  announce("The translation was copied.");
  setTimeout(() => {
    button.classList.remove("done");
    button.querySelector("span").textContent = "Copy";
  }, 1600);
});

async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  // Without TLS a browser offers only the old way.
  const field = element("textarea", { class: "visually-hidden" });
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  byId("copy").focus();
}

/* Tabs */

const tabs = ["text", "documents"];

function showTab(name, takesFocus = false) {
  for (const tab of tabs) {
    const button = byId(`${tab}-tab`);
    const isShown = tab === name;
    button.setAttribute("aria-selected", String(isShown));
    button.tabIndex = isShown ? 0 : -1;
    byId(`${tab}-panel`).hidden = !isShown;
    if (isShown && takesFocus) button.focus();
  }
  if (languages) showLanguages();
  document.querySelector(".skip").href = name === "text" ? "#source-text" : "#file";
}

for (const tab of tabs) {
  byId(`${tab}-tab`).addEventListener("click", () => showTab(tab));
  byId(`${tab}-tab`).addEventListener("keydown", (event) => {
    if (["ArrowRight", "ArrowLeft"].includes(event.key)) showTab(tabs[1 - tabs.indexOf(tab)], true);
  });
}

/* A file may be dropped anywhere. */

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");

document.addEventListener("dragover", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  showTab("documents");
  document.body.classList.add("dragging");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("dragging");
});
document.addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  document.body.classList.remove("dragging");
  documents.add(event.dataTransfer.files);
});

/* Key */

const keyDialog = byId("key-dialog");

function showKey() {
  byId("key-button").hidden = !server.requires_key;
  byId("key-label").textContent = currentKey() ? "Sign out" : "Sign in";
}

function askForKey(message = "") {
  byId("key-input").value = "";
  showProblem(byId("key-problem"), message);
  if (!keyDialog.open) keyDialog.showModal();
  byId("key-input").focus();
}

byId("key-button").addEventListener("click", () => {
  if (!currentKey()) {
    askForKey();
    return;
  }
  setKey("");
  sourceText.value = "";
  measureSource();
  translateNow();
  showKey();
});
byId("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  setKey(byId("key-input").value.trim());
  try {
    await post("detect", { text: "a" }); // Counts no characters.
    keyDialog.close();
    showKey();
    translateNow();
    sourceText.focus();
  } catch (error) {
    setKey("");
    askForKey(error.message);
  }
});
byId("key-cancel").addEventListener("click", () => keyDialog.close());
document.addEventListener("key-needed", (event) => {
  setKey("");
  showKey();
  askForKey(event.detail.kind === "key_missing" ? "" : event.detail.message);
});

/* Start */

function storedChoice() {
  try {
    return JSON.parse(localStorage.getItem("languages")) ?? {};
  } catch {
    return {};
  }
}

/** What was chosen last time, if it is still possible; else the language of the browser as the target. */
function firstChoice() {
  const stored = storedChoice();
  if (languages.targetsOf(stored.source).includes(stored.target)) return stored;
  const own = navigator.language.split("-")[0];
  const source = languages.sources.length === 1 ? languages.sources[0] : AUTO;
  const targets = languages.targetsOf(source);
  return { source, target: targets.find((code) => code.split("-")[0] === own) ?? targets[0] };
}

async function start() {
  try {
    const answers = await Promise.all([get("models"), get("languages")]);
    server = answers[0];
    languages = new Languages(answers[1]);
  } catch (error) {
    showProblem(problem, error.message, () => location.reload());
    return;
  }
  byId("why").hidden = !server.can_explain;
  const models = server.models.map((model) => `${model.name} (${model.source} → ${model.target}, ${model.version})`);
  byId("facts").textContent = `Dragoman ${server.version}. Models: ${models.join("; ")}.`;
  documents.start({ server, languages, choice: () => choice });
  showKey();
  measureSource();
  choose(firstChoice());
  if (server.requires_key && !currentKey()) askForKey();
}

start();
