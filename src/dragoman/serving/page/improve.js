/* Other wordings of one sentence, and a correction by the reader. */

import { post } from "./api.js";
import { announce, byId, element, icon } from "./dom.js";
import { markSentence } from "./output.js";

const NUM_WORDINGS = 4;
const panel = byId("improve");
const list = byId("wordings");
const field = byId("correction-text");
const note = byId("correction-note");
const usualNote = note.textContent;

let current = null; // {index, sentence, source, target, model}
let request = null;
let onReplace = () => {};

export function whenWordingIsChosen(callback) {
  onReplace = callback;
}

export function close() {
  if (panel.hidden) return;
  request?.abort();
  const hadFocus = panel.contains(document.activeElement);
  panel.hidden = true;
  current = null;
  markSentence(-1);
  if (hadFocus) byId("alternatives").focus();
}

/** Open the panel for a sentence. */
export async function open(choice, focusOn) {
  request?.abort();
  request = new AbortController();
  const { signal } = request;
  current = choice;
  panel.hidden = false;
  markSentence(choice.index);
  byId("improve-source").textContent = choice.sentence.source;
  byId("improve-source").lang = choice.source;
  field.value = choice.sentence.text;
  field.lang = list.lang = choice.target;
  note.textContent = usualNote;
  showWordings([choice.sentence.text], true);
  if (focusOn === "correction") {
    field.focus();
    field.select();
  } else {
    byId("improve-title").focus();
  }
  panel.scrollIntoView({ block: "nearest" });
  try {
    const body = { texts: [choice.sentence.source], source: choice.source, target: choice.target, alternatives: NUM_WORDINGS };
    const answer = (await post("translate", body, signal)).translations[0];
    const wordings = [...new Set([choice.sentence.text, answer.text, ...answer.alternatives])];
    showWordings(wordings, false);
    announce(wordings.length > 1 ? `${wordings.length - 1} other wordings` : "No other wordings");
  } catch (error) {
    // In place of "Looking for other wordings…", the last item.
    if (error.name !== "AbortError") list.lastElementChild.replaceWith(element("li", { class: "soft" }, error.message));
  }
}

function showWordings(wordings, isLoading) {
  const items = wordings.map((text) => {
    const isCurrent = text === current.sentence.text;
    const button = element(
      "button",
      { type: "button", dir: "auto", "aria-pressed": String(isCurrent) },
      element("span", {}, text),
      icon("done"),
    );
    button.addEventListener("click", () => use(text));
    return element("li", {}, button);
  });
  if (isLoading) items.push(element("li", { class: "soft" }, "Looking for other wordings…"));
  else if (wordings.length === 1) items.push(element("li", { class: "soft" }, "The model has no other wording."));
  list.replaceChildren(...items);
}

function use(text) {
  current = { ...current, sentence: onReplace(current.index, text) };
  field.value = text;
  for (const button of list.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.textContent === text));
  }
  markSentence(current.index);
  announce("The wording was changed.");
}

byId("correction").addEventListener("submit", async (event) => {
  event.preventDefault();
  const suggestion = field.value.trim();
  if (!suggestion) {
    note.textContent = "Write a translation first.";
    return;
  }
  const choice = current;
  const { sentence, source, target, model } = choice;
  try {
    await post("suggestions", {
      source,
      target,
      source_text: sentence.source,
      machine_text: sentence.machine ?? sentence.text,
      suggestion,
      model,
    });
    // Meanwhile the panel may have been closed, or opened for another sentence.
    if (current !== choice) return;
    use(suggestion);
    note.textContent = "Thank you. The correction is stored on this server.";
  } catch (error) {
    if (current === choice) note.textContent = error.message;
  }
});
byId("improve-close").addEventListener("click", close);
panel.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
});
